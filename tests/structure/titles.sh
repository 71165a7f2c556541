#!/usr/bin/env bash
# Commit titles since the rule exists: at most 72 characters. titles.sh [BASE]; a clone without BASE is not checked.
set -euo pipefail
base=${1:-165db6ae}
if ! git rev-parse --quiet --verify "$base^{commit}" >/dev/null 2>&1; then
  echo "titles: no commit $base in this clone, nothing checked"
  exit 0
fi
long=$(git log --no-merges --format=%s "$base..HEAD" | awk 'length($0) > 72')
if [ -n "$long" ]; then
  printf 'titles: longer than 72 characters:\n%s\n' "$long" >&2
  exit 1
fi
echo "titles: $(git rev-list --no-merges --count "$base..HEAD") commits, all within 72 characters"
