#!/usr/bin/env bash
# Copies the contents of Ingot's image to build/image: an installation's files (stage.sh) with torch's libraries.
# scripts/image.sh BUILD [cuda]
#
# With `cuda`, the image has libingot_cuda.so, if `make cuda` built it, and docker/Dockerfile.cuda installs torch and
# NVIDIA's libraries from PyPI.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${2:-cpu}" = cuda ]; then scripts/stage.sh "$1" build/image; else scripts/stage.sh "$1" build/image torch; fi
du -sh build/image
