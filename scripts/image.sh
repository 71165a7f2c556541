#!/usr/bin/env bash
# Puts the contents of Ingot's image into build/image: the bundle (scripts/bundle.sh) and the libraries of torch and NVIDIA
# that the binary names. scripts/image.sh BUILD [cuda]
#
# With `cuda` the image has all of torch's libraries, and libingot_cuda.so if `make cuda` built it; docker/Dockerfile.cuda
# installs NVIDIA's own.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
kind=${2:-cpu}
scripts/bundle.sh "$build" >/dev/null
out=build/image
rm -rf "$out"
mkdir -p "$out/torch/lib" "$out/nvidia/cu13/lib"
cp -r build/bundle/ingot/. "$out/"
ldd "$build/ingot" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | while read -r library; do
  case "$library" in
    */nvidia/*) cp -L "$library" "$out/nvidia/cu13/lib/" ;;
    */torch/*) [ "$kind" = cuda ] || cp -L "$library" "$out/torch/lib/" ;;
  esac
done
if [ "$kind" = cuda ]; then rm -rf "$out/torch" "$out/nvidia"; fi # of the PyPI wheels instead
du -sh "$out"
