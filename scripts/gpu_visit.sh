#!/usr/bin/env bash
# Checks and measures Ingot on a machine with a GPU in 12 minutes and packs the results into one archive (docs/guide/gpu.md).
# It needs an NVIDIA driver, python3, and torch 2.11 for CUDA 13. It installs nothing and needs no network.
#
#   scripts/gpu_visit.sh ARCHIVE [--out FOLDER] [--minutes N] [--standin LIBRARIES]
#
# ARCHIVE    build/ingot-bundle.tar.gz (`make cuda bundle`), or the folder where it was unpacked, or build/release
# --out      where results.jsonl, the logs, and gpu-visit.tar.gz are written; gpu-visit-DATE unless set
# --minutes  time of the whole visit, 12 unless set; each part gets its share
# --standin  runs the same parts at small sizes on the stand-in for the CUDA runtime (build/release/tests/standin/lib)
#
# Exit code 0: no part failed. 1: a part failed. 2: no usable GPU, or wrong arguments.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
command -v python3 >/dev/null || { echo "gpu_visit: python3 is missing" >&2; exit 2; }
exec python3 "$here/gpu_visit.py" "$@"
