#!/usr/bin/env bash
# Commit titles have at most 72 characters.
#
#   titles.sh [BASE]           every commit since BASE, by default since the rule exists; a clone without BASE is not checked
#   titles.sh --message FILE   the title of one message, as git's commit-msg hook passes it
set -euo pipefail
if [ "${1:-}" = --message ]; then
  title=$(grep -v '^#' "$2" | head -n 1)
  case "$title" in Merge\ * | fixup!\ * | squash!\ *) exit 0 ;; esac
  if [ "${#title}" -gt 72 ]; then
    printf 'titles: %d characters, at most 72: %s\n' "${#title}" "$title" >&2
    exit 1
  fi
  exit 0
fi
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
