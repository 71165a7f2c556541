#!/usr/bin/env bash
# `make test` runs every test without the label slow. Its last lines list skipped tests with their reasons, and failed
# tests.
#
# Up to three failed tests run once more, one at a time. The second run decides, because a busy machine can exceed a
# test's time limit. The last lines name each test that failed at first, with its output: such a test needs a fix.
#
#   scripts/test.sh BUILD JOBS [ctest argument ...]     BUILD: build/release, or a folder of tests in it
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 jobs=$2
logs=$build/Testing/Temporary
again=()

# `ingot` sets this for itself by starting once more, which loads LibTorch twice. It also keeps the OpenMP threads of test
# programs from spinning on the cores of other tests.
export GOMP_SPINCOUNT=${GOMP_SPINCOUNT-1000}

run() { ctest --test-dir "$build" --output-on-failure --test-output-size-passed 1048576 "$@"; }

rm -f "$logs/LastTestsFailed.log"
status=0
# One more test than cores, because those of the lane `idle` (tests/app/CMakeLists.txt) mostly wait.
run -LE slow -j"$((jobs + 1))" "${@:3}" || status=$?
cp "$logs/LastTest.log" "$logs/FirstTest.log"
if [ $status != 0 ] && [ -f "$logs/LastTestsFailed.log" ] && [ "$(wc -l < "$logs/LastTestsFailed.log")" -le 3 ]; then
  printf '\n== the failed tests once more, each alone\n'
  status=0
  run --rerun-failed -j1 || status=$?
  again=("$logs/LastTest.log")
fi
printf '\nmachine: %s, %s cores,%s\n' "$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)" "$(nproc)" \
  "$(grep -m 1 -E '^(flags|Features)' /proc/cpuinfo | grep -oE ' (amx_bf16|avx512_bf16|avx512f|avx2)\b' | sort -u | tr -d '\n')"
python3 scripts/costs.py "$build"
python3 scripts/test_summary.py "$logs/FirstTest.log" "${again[@]}"
exit $status
