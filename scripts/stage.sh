#!/usr/bin/env bash
# Puts the files of an installation into a folder: scripts/stage.sh BUILD OUT [torch]. The archive (bundle.sh), the wheel
# (wheel/build.py), the Debian package (deb/build.sh), and the images (image.sh) are made of them.
#
#   bin/ingot.bin                  the binary, and bin/ingot, which runs it with the libraries below
#   lib/                           each shared library that it needs, except those of torch, NVIDIA, and glibc, and
#                                  libingot_cuda.so if it was built (`make cuda`)
#   bin/gpu_*, scripts/            with libingot_cuda.so: the checks of a machine with a GPU (gpu_visit.sh)
#   configs/, examples/
#   torch/lib/, nvidia/cu13/lib/   with `torch`: the libraries of the torch of the build that the binary needs on a CPU
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 out=$2 torch=${3:-}
rm -rf "$out"
mkdir -p "$out/lib" "$out/bin"
strip -o "$out/bin/ingot.bin" "$build/ingot"
if [ -e "$build/libingot_cuda.so" ]; then strip -o "$out/lib/libingot_cuda.so" "$build/libingot_cuda.so"; fi
if [ -e "$build/libingot_cuda.so" ] && [ -e "$build/tests/kernels/gpu_check" ]; then
  strip -o "$out/bin/gpu_check" "$build/tests/kernels/gpu_check"
  strip -o "$out/bin/gpu_primitives" "$build/tests/kernels/gpu_primitives"
  mkdir -p "$out/scripts"
  cp scripts/gpu_visit.sh scripts/gpu_visit.py scripts/gpu_visit_parts.py "$out/scripts/"
fi
needed() { ldd "$build/ingot" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }'; }
if ldd "$build/ingot" | grep 'not found' >&2; then
  echo "stage: $build/ingot lacks the libraries above" >&2
  exit 1
fi
needed | while read -r library; do
  case "$library" in
    */nvidia/*) folder=nvidia/cu13/lib ;;
    */torch/*) folder=torch/lib ;;
    */ld-linux* | */libc.so* | */libm.so* | */libdl.so* | */librt.so* | */libpthread.so* | */libresolv.so* | */libutil.so* | */libnsl.so*) continue ;;
    *) folder=lib ;;
  esac
  [ $folder = lib ] || [ "$torch" = torch ] || continue
  mkdir -p "$out/$folder"
  cp -L "$library" "$out/$folder/"
done
cat >"$out/bin/ingot" <<'RUN'
#!/bin/bash
# Runs the binary with its libraries and torch 2.11, from INGOT_TORCH_DIR, next to this installation, or python3's.
here=$(dirname "$(dirname "$(readlink -f "$0")")")
torch=${INGOT_TORCH_DIR:-$here/torch}
if [ ! -e "$torch/lib/libtorch_cpu.so" ] && [ -z "$INGOT_TORCH_DIR" ]; then
  torch=$(python3 -c 'import importlib.util as u; print(list(u.find_spec("torch").submodule_search_locations)[0])' 2>/dev/null)
fi
if [ ! -e "$torch/lib/libtorch_cpu.so" ]; then
  echo "ingot: no torch 2.11 found: set INGOT_TORCH_DIR to the folder that holds lib/libtorch_cpu.so" >&2
  exit 1
fi
export LD_LIBRARY_PATH="$here/lib:$torch/lib:$(dirname "$torch")/nvidia/cu13/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec -a "$0" "$here/bin/ingot.bin" "$@"
RUN
chmod +x "$out/bin/ingot"
cp -r configs examples "$out/"
find "$out/examples" -name __pycache__ -prune -exec rm -rf {} +
