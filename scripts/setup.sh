#!/bin/sh
# Installs what is missing to build (`setup.sh run`) or to run every check (`setup.sh check`). Silent and quick when nothing is.
# Distribution packages are installed only as root with apt-get; otherwise one line says what to install. Packages from npm come
# from package-lock.json alone. Must not change anything outside the system's package manager and node_modules.
set -eu
cd "$(dirname "$0")/.."

level=${1:-check}
case $level in run | check) ;; *) echo "setup.sh: say 'run' or 'check', not '$level'." >&2; exit 64 ;; esac

missing=
# need WHAT PACKAGE: WHAT is a command, or a file when it begins with a slash.
need() {
  case $1 in
    /*) [ -e "$1" ] || missing="$missing $2" ;;
    *) command -v "$1" >/dev/null 2>&1 || missing="$missing $2" ;;
  esac
}

need gcc gcc
need /usr/include/stdio.h libc6-dev
need cmake cmake
need ninja ninja-build
need npm npm
if [ "$level" = check ]; then
  need clang clang
  need objdump binutils
  need git git
  if [ "$(uname -m)" = x86_64 ]; then
    need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
    need /usr/aarch64-linux-gnu/include/stdio.h libc6-dev-arm64-cross
    need qemu-aarch64-static qemu-user-static
    need /usr/include/simde/x86/avx512.h libsimde-dev
  fi
fi

# apt_quiet ARGUMENTS: shows apt's output only when it fails.
apt_quiet() {
  log=$(mktemp)
  if DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" >"$log" 2>&1; then
    rm -f "$log"
  else
    cat "$log" >&2
    rm -f "$log"
    return 1
  fi
}

if [ -n "$missing" ]; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "Not installed yet; as root: apt-get install$missing   (or your distribution's packages of these names)" >&2
    exit 69
  fi
  echo "Installing from the distribution:$missing" >&2
  if ! ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1; then apt_quiet update; fi
  # shellcheck disable=SC2086
  if ! apt_quiet install -y --no-install-recommends $missing 2>/dev/null; then
    apt_quiet update
    apt_quiet install -y --no-install-recommends $missing
  fi
fi

# The stamp is the lock file's checksum: node_modules is made again when the lock changes, and only then.
lock=$(cksum <package-lock.json)
stamp=node_modules/.surge_lock
if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$lock" ]; then
  echo "Installing packages from package-lock.json" >&2
  npm ci --no-audit --no-fund --loglevel=error >&2
  echo "$lock" >"$stamp"
fi
if ! node_modules/.bin/bun --version >/dev/null 2>&1; then
  echo "bun from node_modules does not run here; supported are Linux x86-64 and arm64 with glibc (4 KiB pages on arm64)." >&2
  exit 69
fi
