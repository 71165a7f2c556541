#!/usr/bin/env python3
"""Does a draft head that is trained with the policy keep its acceptance while the policy changes?

    draft_drift.py INGOT [--folder DIR] [--steps 40] [--check] [--set key=value ...]

Trains a model of about 0.4M parameters on the text of docs/, warms up a draft head, and then changes the policy by
reinforcement learning: the reward is the share of vowels in an answer. With draft.shadow=true, engines draft with the head
that is trained with the policy (online), and also compare the first version's head (shadow) with the sampled tokens. Prints
the tokens per pass and the acceptance of both by step, and the part of the training time that the online head takes.

--check also runs the same policy with draft.publish_every=1000000, so that engines really draft with the first head. With
scheduler.max_staleness=0, both runs sample the same tokens, so its tokens per pass must be the shadow's.

Exit 1 if the online head's tokens per pass are ever more than 3% below the mean of its first five steps, if over the last ten
steps they are less than 1.25 times the shadow's, or if --check finds more than 0.1% difference. Not measured: speed, large
models.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

AGENT = """import http.client, json, os, urllib.parse
prompt = json.load(open("task.json"))["prompt"]
url = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
connection = http.client.HTTPConnection(url.netloc, timeout=60)
connection.request("POST", url.path + "/chat/completions", json.dumps(
    {"model": "policy", "max_tokens": 48, "messages": [{"role": "user", "content": prompt}]}),
    {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"})
answer = json.loads(connection.getresponse().read())["choices"][0]["message"]["content"] or ""
print(sum(c in "aeiou" for c in answer) / max(len(answer), 24))
"""

COMMON = ["run.if_exists=replace", "http.port=0", "sandbox.isolation=process", "model.chat_format=compact",
          "model.hidden_size=128", "model.intermediate_size=384", "model.layers=2", "model.heads=4", "model.kv_heads=2",
          "model.head_dim=32", "model.context_length=256", "sft.epochs=0", "sft.max_steps=200", "sft.batch_size=8",
          "sft.learning_rate=2e-3", "sft.warmup_steps=10", "scheduler.groups_per_step=4", "scheduler.group_size=8",
          "scheduler.max_staleness=0", "trainer.learning_rate=1e-3", "trainer.decay=constant", "trainer.warmup_steps=0",
          "trainer.keep_every=1000000", "rollout.max_running=16", "rollout.kv_cache_tokens=16384",
          "rollout.speculation.drafters=[mtp]", "rollout.speculation.min_gain=-1", "gateway.max_new_tokens=48",
          "agents.concurrency=16", "draft.enabled=true", "draft.vocabulary=0"]
ONLINE, SHADOW = "rollout/tokens_per_pass", "draft/shadow_tokens_per_pass"


def write_data(folder):
    """Pieces of the documentation: conversations that continue a text, and prompts to continue."""
    text = "\n".join(path.read_text(encoding="ascii", errors="ignore") for path in sorted(pathlib.Path("docs").rglob("*.md")))
    words = " ".join(text.split())
    pieces = [words[i:i + 120] for i in range(0, len(words) - 120, 120)][:2400]
    with open(folder / "sft.jsonl", "w", encoding="utf-8") as file:
        for piece in pieces[:-64]:
            file.write(json.dumps({"messages": [{"role": "user", "content": piece[:60]}, {"role": "assistant", "content": piece[60:]}]}) + "\n")
    with open(folder / "tasks.jsonl", "w", encoding="utf-8") as file:
        for piece in pieces[-64:]:
            file.write(json.dumps({"prompt": piece[:60], "answer": ""}) + "\n")
    (folder / "agent.py").write_text(AGENT, encoding="utf-8")
    recipe = {"name": "vowels", "command": ["/usr/bin/python3", "-I", "-S", "agent.py"], "timeout_s": 60,
              "files": {"task.json": '{"prompt": ${json:task.prompt}}', "agent.py": AGENT}, "verifier": {"kind": "agent_reported"}}
    config = {"data": {"tasks": str(folder / "tasks.jsonl"), "sft": str(folder / "sft.jsonl")},
              "agents": {"recipes": [recipe]}}
    (folder / "drift.yaml").write_text(json.dumps(config, indent=1), encoding="utf-8")  # JSON is YAML


def train(args, name, more):
    command = [args.ingot, "train", str(args.folder / "drift.yaml")]
    for setting in [*COMMON, f"run.name={name}", f"run.root={args.folder}", f"scheduler.total_steps={args.steps}", *more, *args.set]:
        command += ["--set", setting]
    with open(args.folder / f"{name}.log", "w", encoding="utf-8") as log:
        subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False, timeout=3600)
    rows = [json.loads(line) for line in open(args.folder / name / "metrics.jsonl", encoding="utf-8")]
    return [row for row in rows if "reward/mean" in row and ONLINE in row]


def print_curves(rows):
    print("step  reward  entropy   tokens per pass     acceptance       overlap\n"
          "                         online  shadow     online  shadow   of the online head")
    for row in rows:
        print(f"{row['step']:4}  {row['reward/mean']:6.3f}  {row['actor/entropy']:7.3f}   {row[ONLINE]:6.3f}  {row[SHADOW]:6.3f}"
              f"     {row['draft/accept_rate']:6.3f}  {row['draft/shadow_accept_rate']:6.3f}   {row['draft/overlap']:6.3f}")


def differences(args, online):
    """Runs with engines that draft with the first head, and returns the steps at which the shadow says something else."""
    start = args.folder / "online/checkpoints/step-00000000"
    frozen = train(args, "frozen", ["draft.publish_every=1000000", f"model.path={start}", "data.sft="])
    print(f"tokens per pass of an engine with the first head: {' '.join(f'{row[ONLINE]:.3f}' for row in frozen)}")
    if len(frozen) != len(online):
        return [min(len(frozen), len(online))]
    return [a["step"] for a, b in zip(online, frozen)
            if a["reward/mean"] != b["reward/mean"] or abs(a[SHADOW] / b[ONLINE] - 1) > 1e-3]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ingot")
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    args.folder = args.folder or pathlib.Path(tempfile.mkdtemp(prefix="draft_drift"))
    write_data(args.folder)
    rows = train(args, "online", ["draft.publish_every=1", "draft.warmup_steps=100", "draft.shadow=true"])
    if not rows:
        print(f"no steps; see {args.folder}/online.log")
        return 1
    print_curves(rows)
    online = [row[ONLINE] for row in rows]
    first, least = statistics.mean(online[:5]), min(online)
    gain = statistics.mean(online[-10:]) / statistics.mean(row[SHADOW] for row in rows[-10:])
    shares = [row["draft/seconds"] / row["perf/train_seconds"] for row in rows]
    print(f"online: first five steps {first:.3f}, least {least:.3f} ({least / first - 1:+.1%}); last ten over the shadow: {gain:.2f}x; "
          f"draft training: {statistics.median(shares):.1%} of training time ({min(shares):.1%} to {max(shares):.1%})")
    wrong = differences(args, rows) if args.check else []
    if args.check:
        print(f"the shadow's tokens per pass differ at steps {wrong}" if wrong else "the shadow's tokens per pass are the same")
    return 0 if least >= 0.97 * first and gain >= 1.25 and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
