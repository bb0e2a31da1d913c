# Sourced by the scripts that install what is missing on Debian or Ubuntu.

# need_apt TITLE PACKAGE sets as_root to what makes a command run as root, and
# ends the script when there is no way to.
need_apt() {
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
      echo "$1 is needed; run: sudo apt-get install $2" >&2
      exit 1
    fi
    as_root=(sudo -n)
  fi
  echo "installing $1 with apt-get"
}

# apt_install PACKAGE installs it, and asks for newer lists only when it must.
apt_install() {
  local install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends
    -o Dpkg::Options::=--force-confold "$1")
  if ! "${install[@]}"; then
    "${as_root[@]}" apt-get update -q
    "${install[@]}"
  fi
}
