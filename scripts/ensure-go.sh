#!/usr/bin/env bash
# Says what to do when Go is missing or too old for go.mod.
set -euo pipefail
cd "$(dirname "$0")/.."

go="${GO:-go}"
need="$(awk '$1 == "go" { print $2; exit }' go.mod)"

if ! command -v "$go" >/dev/null; then
  echo "Go $need or later is needed and was not found; see https://go.dev/doc/install" >&2
  exit 1
fi
# From 1.21 on, Go fetches the version that go.mod asks for by itself, unless
# GOTOOLCHAIN=local forbids it. Asking inside the module tells what will run.
if ! have="$("$go" env GOVERSION 2>&1)"; then
  echo "Go $need or later is needed: $have" >&2
  exit 1
fi
have="${have#go}"
have="${have%%[!0-9.]*}"
oldest="$(printf '%s\n%s\n' "$need" "$have" | sort -V | head -n 1)"
if [ "$oldest" != "$need" ]; then
  echo "Go $need or later is needed, this is $have; see https://go.dev/doc/install" >&2
  exit 1
fi
