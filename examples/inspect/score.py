"""Converts an Inspect log's score to a verifier's report: score.py LOG_FOLDER.

Prints {"reward": the first scorer's value, "signals": {"inspect/SCORER": value, ...}}. C, P, and I count as 1, 0.5, and
0. If the log is missing or incomplete, or its sample has an error, the verifier fails, so that the episode is retried.
"""
import json
import os
import sys

WORDS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, True: 1.0, False: 0.0}

folder = sys.argv[1]
logs = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
if len(logs) != 1:
    sys.exit(f"{folder} holds {len(logs)} logs, expected one")
with open(os.path.join(folder, logs[0]), encoding="utf-8") as file:
    log = json.load(file)
if log["status"] != "success":
    sys.exit(f"the evaluation ended as {log['status']}: {json.dumps(log.get('error'))[:500]}")
(sample,) = log["samples"]
if sample.get("error"):
    sys.exit(f"the sample failed: {json.dumps(sample['error'])[:500]}")
signals = {}
for name, score in sample["scores"].items():
    value = score["value"]
    parts = {f"{name}/{part}": number for part, number in value.items()} if isinstance(value, dict) else {name: value}
    for part, number in parts.items():
        signals["inspect/" + part] = float(WORDS[number] if isinstance(number, (str, bool)) else number)
print(json.dumps({"reward": next(iter(signals.values())), "signals": signals}))
