#!/usr/bin/env bash
# `make check`: formatting, clang's thread-safety analysis, ThreadSanitizer over everything without torch and gRPC,
# AddressSanitizer and UBSan over everything, the slow tests, and clang-tidy, which takes longest. Hours on two cores.
# Stops at the first failure.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}

step() { printf '\n== %s\n' "$*"; }

step "clang-format"
git ls-files '*.h' '*.cc' '*.cu' '*.cuh' | xargs clang-format-19 --dry-run --Werror

step "thread-safety analysis (clang)"
cmake --preset thread-safety >/dev/null
cmake --build --preset thread-safety -- -j"$jobs"
python3 scripts/thread_safety.py build/release build/thread-safety "$jobs"

step "ThreadSanitizer"
cmake --preset tsan >/dev/null
cmake --build --preset tsan -- -j"$jobs"
TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1" ctest --test-dir build/tsan --output-on-failure -LE slow

step "AddressSanitizer and UBSan"
cmake --preset asan >/dev/null
cmake --build --preset asan -- -j"$jobs"
ASAN_OPTIONS=detect_leaks=0 ctest --test-dir build/asan --output-on-failure -L unit -LE slow

step "the slow tests"
ctest --test-dir build/release --output-on-failure -L slow

step "clang-tidy (what builds without torch and gRPC)"
python3 scripts/tidy.py build/thread-safety "$jobs"

echo "check: all passed"
