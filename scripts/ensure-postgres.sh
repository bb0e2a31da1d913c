#!/usr/bin/env bash
# Installs the PostgreSQL server programs when they are missing on Debian or
# Ubuntu; says what to install elsewhere. No server is started or configured:
# tests and demo run private clusters of their own.
set -euo pipefail

found() {
  local dir
  if command -v initdb >/dev/null && command -v postgres >/dev/null; then
    return 0
  fi
  for dir in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/libexec/postgresql* \
    /opt/homebrew/opt/postgresql*/bin /usr/local/opt/postgresql*/bin \
    /Applications/Postgres.app/Contents/Versions/*/bin; do
    if [ -x "$dir/initdb" ] && [ -x "$dir/postgres" ]; then
      return 0
    fi
  done
  return 1
}

if found; then
  exit 0
fi

if ! command -v apt-get >/dev/null; then
  cat >&2 <<'HINT'
PostgreSQL 14 or later is needed (the server programs, no running server):
  macOS            brew install postgresql
  Fedora, RHEL     dnf install postgresql-server
  Alpine           apk add postgresql
  Arch             pacman -S postgresql
  openSUSE         zypper install postgresql-server
HINT
  exit 1
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
    echo "PostgreSQL is needed; run: sudo apt-get install postgresql" >&2
    exit 1
  fi
  as_root=(sudo -n)
fi

echo "installing PostgreSQL with apt-get"
export DEBIAN_FRONTEND=noninteractive
# The package makes and starts a cluster of its own unless told otherwise.
if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
  "${as_root[@]}" mkdir -p /etc/postgresql-common
  echo "create_main_cluster = false" | "${as_root[@]}" tee /etc/postgresql-common/createcluster.conf >/dev/null
fi
install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends
  -o Dpkg::Options::=--force-confold postgresql)
if ! "${install[@]}"; then
  "${as_root[@]}" apt-get update -q
  "${install[@]}"
fi

if ! found; then
  echo "apt-get installed postgresql, but initdb was not found under /usr/lib/postgresql" >&2
  exit 1
fi
