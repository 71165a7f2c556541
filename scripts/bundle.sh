#!/usr/bin/env bash
# Packs build/release/ingot and every shared library it needs, except those of torch, NVIDIA and glibc, into
# build/ingot-bundle.tar.gz, with libingot_cuda.so if it was built. Unpack it anywhere with an installed torch 2.11 and run
#   INGOT_TORCH_DIR=/path/to/torch bin/ingot ...
set -euo pipefail
build=$1
out=build/bundle/ingot
rm -rf build/bundle
mkdir -p "$out/lib" "$out/bin" "$out/configs" "$out/examples"
cp "$build/ingot" "$out/bin/ingot.bin"
strip "$out/bin/ingot.bin"
if [ -e "$build/libingot_cuda.so" ]; then # `make cuda`; found in ../lib by the binary
  cp "$build/libingot_cuda.so" "$out/lib/"
  strip "$out/lib/libingot_cuda.so"
fi
ldd "$build/ingot" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' |
  grep -vE '/(torch|nvidia)/|/lib(c|m|dl|rt|pthread|resolv|util|nsl)\.so|/ld-linux' |
  while read -r library; do cp -L "$library" "$out/lib/"; done
cat >"$out/bin/ingot" <<'RUN'
#!/bin/sh
# Runs the bundled binary against an installed torch 2.11.
here=$(cd "$(dirname "$0")/.." && pwd)
torch=${INGOT_TORCH_DIR:-$(python3 -c 'import importlib.util as u; print(list(u.find_spec("torch").submodule_search_locations)[0])' 2>/dev/null)}
if [ ! -e "$torch/lib/libtorch_cpu.so" ]; then
  echo "ingot: no torch 2.11 found: set INGOT_TORCH_DIR to the folder that holds lib/libtorch_cpu.so" >&2
  exit 1
fi
site=$(dirname "$torch")
export LD_LIBRARY_PATH="$here/lib:$torch/lib:$site/nvidia/cu13/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$here/bin/ingot.bin" "$@"
RUN
chmod +x "$out/bin/ingot"
cp -r configs examples "$out/"
tar -C build/bundle -czf build/ingot-bundle.tar.gz ingot
ls -l build/ingot-bundle.tar.gz
