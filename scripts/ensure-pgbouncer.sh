#!/usr/bin/env bash
# Installs PgBouncer when it is missing on Debian or Ubuntu; says what to
# install elsewhere. Tests run it themselves; no service is started for them.
set -euo pipefail

found() { command -v pgbouncer >/dev/null || [ -x /usr/sbin/pgbouncer ]; }

if found; then
  exit 0
fi

if ! command -v apt-get >/dev/null; then
  echo "PgBouncer is needed for the tests behind a pooler (brew, dnf, apk, pacman or zypper: pgbouncer)" >&2
  exit 1
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
    echo "PgBouncer is needed; run: sudo apt-get install pgbouncer" >&2
    exit 1
  fi
  as_root=(sudo -n)
fi

echo "installing PgBouncer with apt-get"
# The package would start a pooler of its own; a policy that refuses is put in
# its way for the time of the installation, unless there is one already.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod 755 "$policy"
  trap '"${as_root[@]}" rm -f "$policy"' EXIT
fi
install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends
  -o Dpkg::Options::=--force-confold pgbouncer)
if ! "${install[@]}"; then
  "${as_root[@]}" apt-get update -q
  "${install[@]}"
fi

if ! found; then
  echo "apt-get installed pgbouncer, but the program was not found" >&2
  exit 1
fi
