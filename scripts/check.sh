#!/usr/bin/env bash
# scripts/check.sh            all parts below, as in `make check`; takes hours on two cores
# scripts/check.sh PART ...   only these parts
#
#   formatting            clang-format
#   thread-safety-plain   clang's thread-safety analysis of sources that need neither torch nor gRPC (minutes)
#   thread-safety         the same for all sources
#   tsan-core             ThreadSanitizer on the policy, the pool, and the path of a gateway call (minutes)
#   tsan                  ThreadSanitizer on everything that builds without torch and gRPC
#   asan                  AddressSanitizer and UBSan on everything
#   slow                  the tests with label `slow`
#   wheel                 `make wheel`, then trains the run of `ingot init` in a fresh environment (downloads torch)
#   deb                   `make deb`, then trains the run of `ingot init` from the unpacked package
#   docs                  runs the marked blocks of the pages (scripts/run_docs.py); takes minutes
#   tidy                  clang-tidy on sources that need neither torch nor gRPC
#   tidy-changed          the same, but only on sources changed since BASE (main); builds only the protos
#
# Stops at the first failure. Some parts need build/release (`make build`).
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}

formatting() { git ls-files '*.h' '*.cc' '*.cu' '*.cuh' | xargs -P "$jobs" -n 64 clang-format-19 --dry-run --Werror; }

thread-safety-plain() { python3 scripts/thread_safety.py build/release "$jobs" plain; }

thread-safety() { python3 scripts/thread_safety.py build/release "$jobs" all; }

under_tsan() {
  TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1 suppressions=$PWD/tests/tsan_suppressions.txt" ctest --test-dir build/tsan --output-on-failure -LE slow -j"$jobs" "$@"
}

tsan-core() {
  local tests=(scheduler_policy_test scheduler_test datapool_test gateway_test)
  cmake --preset tsan >/dev/null
  cmake --build --preset tsan --target "${tests[@]}" -- -j"$jobs"
  under_tsan -R "^($(IFS='|'; echo "${tests[*]}"))\$"
}

tsan() {
  cmake --preset tsan >/dev/null
  cmake --build --preset tsan -- -j"$jobs"
  under_tsan
}

asan() {
  cmake --preset asan >/dev/null
  cmake --build --preset asan -- -j"$jobs"
  ASAN_OPTIONS=detect_leaks=0 ctest --test-dir build/asan --output-on-failure -L unit -LE slow
}

wheel() {
  make wheel
  scripts/wheel/try.sh dist
}
deb() {
  make deb
  scripts/deb/try.sh dist
}
docs() { python3 scripts/run_docs.py; }

slow() { ctest --test-dir build/release --output-on-failure -L slow; }

tidy() {
  cmake --preset thread-safety >/dev/null
  cmake --build --preset thread-safety -- -j"$jobs"
  python3 scripts/tidy.py build/thread-safety "$jobs"
}

# Committed, uncommitted and new files. A changed header is checked through the source with the same name.
tidy-changed() {
  local base changed
  base=$(git merge-base "${BASE:-main}" HEAD)
  changed=$({ git diff --name-only --diff-filter=d "$base"; git ls-files --others --exclude-standard; } |
    { grep -E '^src/.*\.(h|cc)$' || true; } | sed -E 's/\.(h|cc)$/.cc/' | sort -u)
  if [ -z "$changed" ]; then
    echo "clang-tidy: no source under src/ differs from ${BASE:-main}"
    return
  fi
  cmake --preset thread-safety >/dev/null
  cmake --build --preset thread-safety --target proto_messages -- -j"$jobs"
  # shellcheck disable=SC2086
  python3 scripts/tidy.py build/thread-safety "$jobs" $changed
}

parts=("$@")
[ $# -gt 0 ] || parts=(formatting thread-safety tsan asan slow wheel deb docs tidy)
for part in "${parts[@]}"; do
  case "$part" in
    formatting | thread-safety-plain | thread-safety | tsan-core | tsan | asan | slow | wheel | deb | docs | tidy | tidy-changed) ;;
    *) echo "check: unknown part '$part'; the parts are listed at the top of scripts/check.sh" >&2; exit 2 ;;
  esac
  printf '\n== %s\n' "$part"
  "$part"
done
echo "check: passed: ${parts[*]}"
