"""The share of lower-case letters in what the agent printed last: {"reward": 0..1} for the answer on stdin."""
import json
import sys

answer = sys.stdin.buffer.read().decode("utf-8", "replace").strip()
print(json.dumps({"reward": sum("a" <= c <= "z" for c in answer) / max(1, len(answer))}))
