#!/usr/bin/env bash
# Real training of the smoke task in the three orders of scheduler.order, five seeds each: benchmarks/order_seeds.sh [INGOT]
#
# A run takes about 110 s on two idle cores, 15 runs in all. Only seconds need a quiet machine. Prints a row per run and, per order, mean and
# 95 % interval (Student's t, 4 degrees of freedom) of the reward of the last ten steps and of the run's seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
ingot=${1:-build/release/ingot}
root=$(mktemp -d "${TMPDIR:-/tmp}/ingot-orders-XXXXXX")
trap 'rm -rf "$root"' EXIT
for seed in 1 2 3 4 5; do
  for order in strict windowed greedy; do
    begin=$(date +%s.%N)
    # The goal's exit code 1 is a result too.
    "$ingot" train configs/smoke.yaml --set run.root="$root" --set run.name="$order-$seed" --set run.seed="$seed" \
      --set scheduler.order="$order" --set http.port=0 --set scheduler.total_steps=48 --set sandbox.isolation=process >"$root/$order-$seed.log" 2>&1 || true
    python3 - "$root/$order-$seed/metrics.jsonl" "$order" "$seed" "$begin" <<'PY' | tee -a "$root/rows"
import json, sys, time
rows = [json.loads(line) for line in open(sys.argv[1])]
last = [row["reward/mean"] for row in rows if "reward/mean" in row][-10:]
print(sys.argv[2], sys.argv[3], round(sum(last) / len(last), 4), round(time.time() - float(sys.argv[4]), 1))
PY
  done
done
python3 - "$root/rows" <<'PY'
import statistics, sys
rows = [line.split() for line in open(sys.argv[1])]
for order in ("strict", "windowed", "greedy"):
    for name, column in (("reward of the last ten steps", 2), ("seconds", 3)):
        values = [float(row[column]) for row in rows if row[0] == order]
        half = 2.776 * statistics.stdev(values) / len(values) ** 0.5
        print(f"{order:<9} {name}: {statistics.mean(values):.3f} +- {half:.3f}")
PY
