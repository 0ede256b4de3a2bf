#!/bin/sh
# Installs what building and testing needs on Debian 12, where it is missing. Quiet when nothing is.
set -eu
packages="cmake ninja-build g++ ccache mold pkg-config libabsl-dev libre2-dev libcli11-dev nlohmann-json3-dev
          libhwy-dev zlib1g-dev libgtest-dev libbenchmark-dev python3 python3-numpy"
missing=""
for p in $packages; do
  case "$(dpkg-query -W -f='${Status}' "$p" 2>/dev/null)" in
    *"ok installed"*) ;;
    *) missing="$missing $p" ;;
  esac
done
[ -z "$missing" ] && exit 0
if [ "$(id -u)" -eq 0 ]; then
  root=""
elif command -v sudo >/dev/null 2>&1; then
  root="sudo"
else
  echo "missing Debian packages, and neither root nor sudo to install them:$missing" >&2
  exit 1
fi
echo "installing:$missing" >&2
export DEBIAN_FRONTEND=noninteractive
$root apt-get update -qq >&2
# shellcheck disable=SC2086
$root apt-get install -y -qq --no-install-recommends $missing >&2
