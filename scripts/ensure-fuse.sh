#!/usr/bin/env bash
# Says what is missing for the power-cut campaigns, which mount a file system
# of their own. Root needs the device alone; anybody else needs fusermount3.
set -euo pipefail

if [ "$(uname -s)" != Linux ]; then
  echo "the power-cut campaigns need Linux and FUSE" >&2
  exit 1
fi
if [ ! -e /dev/fuse ]; then
  cat >&2 <<'HINT'
/dev/fuse is missing. Load the kernel's module:  modprobe fuse
In a container:  docker run --device /dev/fuse --cap-add SYS_ADMIN ...
HINT
  exit 1
fi
if [ "$(id -u)" -eq 0 ] || command -v fusermount3 >/dev/null; then
  exit 0
fi
if command -v apt-get >/dev/null && command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
  echo "installing fuse3 with apt-get"
  install=(sudo -n env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends fuse3)
  "${install[@]}" || { sudo -n apt-get update -q && "${install[@]}"; }
  exit 0
fi
echo "fusermount3 is needed by users other than root: install fuse3 (Debian, Ubuntu, Fedora, Alpine and Arch call it so)" >&2
exit 1
