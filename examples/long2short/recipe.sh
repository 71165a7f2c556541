#!/bin/bash
# Runs Kimi k1.5's long2short on the task in generate.py: recipe.sh INGOT FOLDER [SFT_STEPS]. Every step is a command
# from docs/guide/data.md. The last lines are the mean outcome and length of each model's answers to held-out questions.
# SFT_STEPS: the long model's SFT steps, 400 by default.
set -e
ingot=$(realpath "$1") here=$(realpath "$(dirname "$0")") folder=$2
mkdir -p "$folder/long2short" && cp -r "$here/../agents" "$folder/" && cp "$here"/{run.yaml,generate.py,measure.py} "$folder/long2short/"
cd "$folder/long2short"
python3 generate.py .
last() { ls -d "runs/$1/checkpoints/"step-* | tail -1; }
measure() {  # NAME CHECKPOINT
  "$ingot" collect run.yaml --set "run.name=measured-$1" --set data.tasks=held_out.jsonl --set data.sft= --checkpoint "$2" --samples 4 > /dev/null
  "$ingot" export "runs/measured-$1" "$1.atif" --as atif > /dev/null
  python3 measure.py "$1" "$1.atif" | tee -a results.txt
}
rm -f results.txt
"$ingot" train run.yaml --set "sft.max_steps=${3:-400}"
long=$(last long)

# 1. A second RL phase with the length reward and a much smaller limit.
"$ingot" train run.yaml --set run.name=short --set data.sft= --set sft.max_steps=0 --set "model.path=$long" --set gateway.max_new_tokens=16 \
    --set scheduler.total_steps=12 --set 'rewards.terms=[{kind: outcome}, {kind: length, weight: 0.2}]'
# 2. Shortest rejection sampling: the shortest correct one of 8 samples.
"$ingot" collect run.yaml --set run.name=eight --set data.sft= --checkpoint "$long" --samples 8
"$ingot" export runs/eight shortest.jsonl --shortest
"$ingot" train run.yaml --set run.name=rejection --set data.tasks= --set data.sft=shortest.jsonl --set "model.path=$long" \
    --set sft.max_steps=0 --set sft.epochs=2 --set sft.learning_rate=1e-3
# 3. DPO: prefer the shortest correct answer to longer ones.
"$ingot" export runs/eight pairs.jsonl --as dpo
"$ingot" train run.yaml --set run.name=preference --set data.tasks= --set data.sft= --set data.dpo=pairs.jsonl --set "model.path=$long" \
    --set sft.max_steps=0 --set dpo.epochs=1
# 4. The average of a long and a short model's weights.
"$ingot" model merge --model "$long" --with "$(last short)" average

measure long "$long"
measure short "$(last short)"
measure rejection "$(last rejection)"
measure preference "$(last preference)"
measure average average
