#!/usr/bin/env bash
# Installs the PostgreSQL server programs when they are missing on Debian or
# Ubuntu; says what to install elsewhere. No server is started or configured:
# tests and demo run private clusters of their own.
set -euo pipefail
source "$(dirname "$0")/apt.sh"

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

need_apt PostgreSQL postgresql
# The package makes and starts a cluster of its own unless told otherwise.
if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
  "${as_root[@]}" mkdir -p /etc/postgresql-common
  echo "create_main_cluster = false" | "${as_root[@]}" tee /etc/postgresql-common/createcluster.conf >/dev/null
fi
apt_install postgresql

if ! found; then
  echo "apt-get installed postgresql, but initdb was not found under /usr/lib/postgresql" >&2
  exit 1
fi
