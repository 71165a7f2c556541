#!/usr/bin/env bash
# Unpacks dist/ingot_*_amd64.deb into a fresh folder and trains the run of `ingot init` there, with an empty environment and
# no compiler in PATH. Fails if a library comes from outside the package, other than glibc's, or if the reward does not rise.
#   scripts/deb/try.sh [FOLDER]     FOLDER: dist
set -euo pipefail
shopt -s nullglob
packages=("${1:-dist}"/ingot_*_amd64.deb)
[ ${#packages[@]} = 1 ] || { echo "deb: ${1:-dist} has ${#packages[@]} packages; run make deb" >&2; exit 2; }
scripts=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d /tmp/ingot-deb.XXXXXX)
trap '/usr/bin/rm -rf "$folder"' EXIT
dpkg-deb -x "${packages[0]}" "$folder/root"
mkdir "$folder/bin"
for tool in env bash sh python3 readlink dirname; do ln -s "$(command -v $tool)" "$folder/bin/"; done
cd "$folder"
clean=(env -i "PATH=$folder/root/usr/bin:$folder/bin" "HOME=$folder")
"${clean[@]}" LD_DEBUG=libs ingot --version 2>debug | head -n 1
strangers=$(sed -nE 's/.*calling init: (.*)/\1/p' debug | grep -E "\.so" | grep -vE "^$folder/root/|/(libc|libm|libdl|librt|libpthread|libresolv|libutil|ld-linux-x86-64)\.so" | grep -vE "/lib(tinfo|selinux|pcre2-8)\.so" | sort -u || true)
[ -z "$strangers" ] || { echo "deb: libraries that the package lacks: $strangers" >&2; exit 1; }
"${clean[@]}" ingot init demo
/usr/bin/timeout 900 "${clean[@]}" ingot train demo/run.yaml http.port=0
/usr/bin/python3 "$scripts/reward_rises.py" demo/runs/demo/metrics.jsonl
