#!/usr/bin/env python3
"""Holds the models that two builds wrote against each other: compare_exports.py OLD NEW.

    mkdir build/before && git archive COMMIT src/model tests/model | tar x -C build/before
    cmake --preset release -DINGOT_MODEL_BEFORE=$PWD/build/before
    cmake --build --preset release --target model_export --target model_export_before
    mkdir OLD NEW && build/release/tests/model/model_export_before OLD && build/release/tests/model/model_export NEW

Random weights and logits (logits.json, each number in full) must have equal bytes in every folder that both write.
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
