#!/usr/bin/env python3
"""Does a draft head that is trained with the policy keep its acceptance while the policy changes?

    draft_drift.py INGOT [--folder DIR] [--steps 40] [--set key=value ...]

Runs configs/smoke.yaml twice from the same supervised policy and warmed-up head: once with draft.publish_every=1 (online),
and once with draft.publish_every=1000000 (frozen: engines keep the first head). Drafts change no token, and with
scheduler.max_staleness=0 both runs sample the same ones, so that the frozen run's acceptance is that of a control head in
the online run. Prints tokens per pass (rollout/tokens_per_pass) and acceptance (draft/accept_rate) by step. Exit 1 if the
online head's tokens per pass are ever more than 3% below the mean of its first five steps, or over the last ten steps less
than 1.25 times the frozen head's, or if the runs' rewards differ. Not measured: speed, large models.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

COMMON = ["run.if_exists=replace", "http.port=0", "scheduler.max_staleness=0", "rollout.speculation.drafters=[mtp]",
          "rollout.speculation.min_gain=-1", "draft.enabled=true", "draft.vocabulary=0", "trainer.keep_every=1000000"]


def train(args, name, more):
    settings = [*COMMON, f"run.name={name}", f"run.root={args.folder}", f"scheduler.total_steps={args.steps}", *more, *args.set]
    command = [args.ingot, "train", "configs/smoke.yaml"]
    for setting in settings:
        command += ["--set", setting]
    with open(f"{args.folder}/{name}.log", "w", encoding="utf-8") as log:
        subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False, timeout=3600)
    rows = [json.loads(line) for line in open(f"{args.folder}/{name}/metrics.jsonl", encoding="utf-8")]
    return [row for row in rows if "reward/mean" in row and "rollout/tokens_per_pass" in row]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ingot")
    parser.add_argument("--folder", default="")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    args.folder = args.folder or tempfile.mkdtemp(prefix="draft_drift")
    online = train(args, "online", ["draft.publish_every=1", "draft.warmup_steps=200"])
    start = pathlib.Path(args.folder) / "online/checkpoints/step-00000000"
    frozen = train(args, "frozen", ["draft.publish_every=1000000", f"model.path={start}", "data.sft="])
    print("step  reward          tokens per pass    acceptance\n      online frozen   online frozen      online frozen")
    for a, b in zip(online, frozen):
        print(f"{a['step']:4}  {a['reward/mean']:6.3f} {b['reward/mean']:6.3f}"
              f"   {a['rollout/tokens_per_pass']:6.2f} {b['rollout/tokens_per_pass']:6.2f}"
              f"      {a.get('draft/accept_rate', 0):6.3f} {b.get('draft/accept_rate', 0):6.3f}")
    per_pass = [row["rollout/tokens_per_pass"] for row in online]
    first, least = statistics.mean(per_pass[:5]), min(per_pass)
    gain = statistics.mean(per_pass[-10:]) / statistics.mean(row["rollout/tokens_per_pass"] for row in frozen[-10:])
    same = [a["reward/mean"] for a in online] == [b["reward/mean"] for b in frozen]
    print(f"online: first five steps {first:.3f}, least {least:.3f} ({least / first - 1:+.1%}); last ten over frozen: {gain:.2f}x; "
          f"rewards {'equal' if same else 'differ'}")
    return 0 if least >= 0.97 * first and gain >= 1.25 and same and len(online) == len(frozen) else 1


if __name__ == "__main__":
    sys.exit(main())
