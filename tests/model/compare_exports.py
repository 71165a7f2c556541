#!/usr/bin/env python3
"""Holds the models that two builds wrote against each other: compare_exports.py OLD NEW.

    OLD_BUILD/tests/model/model_export OLD; NEW_BUILD/tests/model/model_export NEW

Random weights and logits (logits.json, each number in full) must have equal bytes in every folder that both builds write. A
change of the model's definition that is to change nothing is proved so, against a worktree of the commit before it.
"""
import pathlib
import sys

old, new = map(pathlib.Path, sys.argv[1:3])
both = sorted(folder.name for folder in old.iterdir() if (new / folder.name).is_dir())
different = [f"{name}/{file}" for name in both for file in ("model.safetensors", "logits.json")
             if (old / name / file).read_bytes() != (new / name / file).read_bytes()]
size = sum((old / name / "model.safetensors").stat().st_size for name in both)
print(f"{len(both)} models ({', '.join(both)}), {size} bytes of weights: " + (f"DIFFERENT: {different}" if different else "equal"))
sys.exit(not both or bool(different))
