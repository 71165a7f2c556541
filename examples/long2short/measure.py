#!/usr/bin/env python3
"""Prints the mean outcome and the mean number of sampled tokens of the trajectories in an ATIF file: measure.py NAME FILE."""
import json
import sys

trajectories = [json.loads(line) for line in open(sys.argv[2], encoding="utf-8")]
tokens = [sum(len(step["metrics"]["completion_token_ids"]) for step in one["steps"] if step["source"] == "agent") for one in trajectories]
outcomes = [one["extra"]["outcome"] for one in trajectories]
print(f"{sys.argv[1]:12s} outcome {sum(outcomes) / len(outcomes):.2f}  {sum(tokens) / len(tokens):5.1f} tokens  {len(tokens)} answers")
