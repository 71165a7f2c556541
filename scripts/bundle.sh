#!/usr/bin/env bash
# Packs the files of an installation (stage.sh), without torch, into build/ingot-bundle.tar.gz. Unpack it anywhere with an
# installed torch 2.11 and run
#   INGOT_TORCH_DIR=/path/to/torch bin/ingot ...
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/stage.sh "$1" build/bundle/ingot
tar -C build/bundle -czf build/ingot-bundle.tar.gz ingot
ls -l build/ingot-bundle.tar.gz
