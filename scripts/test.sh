#!/usr/bin/env bash
# `make test`: every test but those labelled slow, then the skipped ones by name with the reason each gave.
#
#   scripts/test.sh BUILD JOBS [ctest argument ...]
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 jobs=$2
status=0
ctest --test-dir "$build" --output-on-failure --test-output-size-passed 1048576 -LE slow -j"$jobs" "${@:3}" || status=$?
python3 scripts/skipped.py "$build/Testing/Temporary/LastTest.log"
exit $status
