#!/usr/bin/env bash
# The only command for a machine with a card: builds src/kernels there (needs only nvcc 13, torch 2.11 for CUDA 13, cmake,
# ninja and a C++20 compiler), runs every check of the CUDA kernels and prints JSON lines. With
# build/ingot-bundle.tar.gz there (`make cuda bundle`), also trains the smoke configuration on the card.
#
#   scripts/gpu_check.sh [--no-bench] [--sanitizer memcheck|racecheck|synccheck|initcheck]
#
# --sanitizer runs the checks under compute-sanitizer (slow, and no times). Figures also go to $OUT/gpu_check.jsonl if OUT
# is set. Exit code 0: all checks pass.
set -euo pipefail
cd "$(dirname "$0")/.."
bench=() tool=
while [ $# -gt 0 ]; do
  case "$1" in
    --no-bench) bench=(--no-bench) ;;
    --sanitizer) tool=${2:?--sanitizer needs a tool}; bench=(--no-bench); shift ;;
    *) echo "gpu_check: unknown argument '$1'" >&2; exit 2 ;;
  esac
  shift
done
out=${OUT:-build}
mkdir -p "$out"
export INGOT_TORCH_DIR=${INGOT_TORCH_DIR:-$(python3 -c 'import importlib.util as u; print(list(u.find_spec("torch").submodule_search_locations)[0])')}
site=$(dirname "$INGOT_TORCH_DIR")
home=${INGOT_CUDA_HOME:-${CUDA_HOME:-/usr/local/cuda}}
if [ ! -x "$home/bin/nvcc" ]; then home=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")"); fi

echo "gpu_check: torch $INGOT_TORCH_DIR, CUDA $home" >&2
cmake --preset gpu-check -DINGOT_CUDA_HOME="$home" >"$out/configure.log" || { tail -30 "$out/configure.log" >&2; exit 2; }
cmake --build --preset gpu-check --target gpu_check ingot_cuda -- -j"$(nproc)" >"$out/build.log" || { tail -60 "$out/build.log" >&2; exit 2; }

# torch's CUDA libraries of the wheels, then the toolkit's.
libraries=$(printf '%s:' "$INGOT_TORCH_DIR/lib" "$site"/nvidia/*/lib)
export LD_LIBRARY_PATH="${libraries%:}:$home/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
runner=()
if [ -n "$tool" ]; then runner=(compute-sanitizer --tool "$tool" --error-exitcode 3); fi
status=0
"${runner[@]}" build/gpu-check/tests/kernels/gpu_check build/gpu-check/libingot_cuda.so "${bench[@]}" |
  tee "$out/gpu_check.jsonl" || status=$?

if [ -e build/ingot-bundle.tar.gz ] && [ -z "$tool" ]; then
  rm -rf build/unpacked && mkdir -p build/unpacked && tar -C build/unpacked -xzf build/ingot-bundle.tar.gz
  # The library that was just built, not the copied one.
  (cd build/unpacked/ingot && INGOT_CUDA_LIBRARY=$OLDPWD/build/gpu-check/libingot_cuda.so \
    bin/ingot train configs/smoke.yaml --set device=cuda) >"$out/smoke_cuda.log" 2>&1 && smoke=true || smoke=false
  tail -5 "$out/smoke_cuda.log" >&2
  echo "{\"smoke_on_cuda\": $smoke}" | tee -a "$out/gpu_check.jsonl"
  [ "$smoke" = true ] || status=1
fi
exit "$status"
