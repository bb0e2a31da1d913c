#!/usr/bin/env bash
# Installs PgBouncer when it is missing on Debian or Ubuntu; says what to
# install elsewhere. Tests run it themselves; no service is started for them.
set -euo pipefail
source "$(dirname "$0")/apt.sh"

found() { command -v pgbouncer >/dev/null || [ -x /usr/sbin/pgbouncer ]; }

if found; then
  exit 0
fi

if ! command -v apt-get >/dev/null; then
  echo "PgBouncer is needed for the tests behind a pooler (brew, dnf, apk, pacman or zypper: pgbouncer)" >&2
  exit 1
fi

need_apt PgBouncer pgbouncer
# The package would start a pooler of its own; a policy that refuses is put in
# its way for the time of the installation, unless there is one already.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod 755 "$policy"
  trap '"${as_root[@]}" rm -f "$policy"' EXIT
fi
apt_install pgbouncer

if ! found; then
  echo "apt-get installed pgbouncer, but the program was not found" >&2
  exit 1
fi
