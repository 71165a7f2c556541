"""Fails unless the reward rose in the run from `ingot init`: reward_rises.py METRICS.JSONL."""
import json
import sys

rows = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
rewards = [row["reward/mean"] for row in rows if "actor/loss" in row]
early, late = sum(rewards[:5]) / 5, sum(rewards[-5:]) / 5
print(f"reward {early:.2f} over the first five steps, {late:.2f} over the last five")
raise SystemExit(0 if len(rewards) == 40 and late > early + 0.3 else "the reward did not rise")
