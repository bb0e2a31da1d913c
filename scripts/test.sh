#!/usr/bin/env bash
# Runs every test: raced where a C compiler is there, in random order, never
# from the cache. Arguments go to `go test`; without any it is ./...
set -euo pipefail
cd "$(dirname "$0")/.."

go="${GO:-go}"
flags=(-shuffle=on -count=1 -timeout 25m)

# Packages share one PostgreSQL: more than four at a time only queue there.
cores="$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)"
flags+=(-p "$((cores < 4 ? cores : 4))")

if [ "$("$go" env CGO_ENABLED)" = 1 ] && command -v "$("$go" env CC)" >/dev/null; then
  flags+=(-race)
else
  echo "no C compiler: testing without the race detector" >&2
fi

if [ "$#" -gt 0 ]; then
  exec "$go" test "${flags[@]}" "$@"
fi
# Schedules of virtual time run in full without the race detector, which makes
# them ten times as slow, and in short form with it.
"$go" list ./... | grep -v '/pkg/virtual$' | xargs "$go" test "${flags[@]}"
"$go" test "${flags[@]}" -short ./pkg/virtual
"$go" test -count=1 -timeout 15m ./pkg/virtual

# What a program with failpoints does, and a short campaign over them.
"$go" test -tags failpoints -count=1 -timeout 5m ./pkg/failpoint ./pkg/daemon
"$go" test -tags failpoints -count=1 -timeout 5m -run 'Injected|LostAnswer|ADelay' ./pkg/postgres
"$go" test -tags failpoints -count=1 -timeout 5m -run 'Failpoint' ./pkg/e2e
# The campaign of faults for a moment, with one broker and with three.
make --no-print-directory chaos CHAOS_MINUTES=1.5 CHAOS_SEED=11 CHAOS_FLAGS=--short
scripts/fuzz.sh
