#!/bin/sh
# Trains a family: creates its data, trains the warm start, checks that greedy decoding solves the easy tasks, and
# starts the run.
#
#   examples/families/train.sh NAME [KEY=VALUE...]        NAME: vault, ledger, errands, or hunt
#   INGOT=build/release/ingot                             the binary
#   EASY=0.9                                              minimum reward on the easy tasks; hunt: 1.7 of 2
#
# An existing warm start in runs/NAME-warm is used if its checkpoint is newer than its data and configuration.
set -eu
name=$1
shift
[ "$name" != hunt ] || EASY=${EASY:-1.7}
ingot=${INGOT:-build/release/ingot}
data=build/families/$name
folder=examples/families/$name
warm=runs/$name-warm/checkpoints/step-00000000

[ -s "$data/sft.jsonl" ] || python3 "$folder/generate.py" --out "$data"
if [ ! "$warm/model.safetensors" -nt "$data/sft.jsonl" ] || [ ! "$warm/model.safetensors" -nt "$folder/run.yaml" ]; then
  "$ingot" train "$folder/run.yaml" "run.name=$name-warm" http.port=0 data.tasks= eval.tasks= goal.first_steps=0 goal.last_steps=0
fi
"$ingot" eval "$warm" "$folder/run.yaml" "run.name=$name-easy" http.port=0 "eval.tasks=$data/easy.jsonl" gateway.eval_sampling.temperature=0
python3 -c 'import json, sys
row, least = json.load(open(sys.argv[1])), float(sys.argv[2])
reward = row.get("eval/graded_mean", row["eval/reward_mean"])
sys.exit(f"the warm start earns {reward:.2f} on the easy tasks, wanted {least}: train it longer (sft.max_steps)" if reward < least else 0)
' "runs/$name-easy-eval/step-00000000/evaluation.json" "${EASY:-0.9}"
"$ingot" train "$folder/run.yaml" "model.path=$warm" data.sft= sft.max_steps=0 http.port=0 "$@"
