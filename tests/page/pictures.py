#!/usr/bin/env python3
"""Takes the pictures of docs/guide/tour.md in a headless Chromium: pictures.py BINARY OUT [RUNS].

RUNS is a folder with runs of configs/smoke.yaml, of which `smoke` is shown alone. Without it, the two runs of the tour are trained first, which
takes minutes. Needs what run.py needs.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "app" / "runs"))
sys.path.insert(0, str(HERE))
import page_tests  # noqa: E402
from run import install_packages  # noqa: E402

MAX_BYTES = 200_000
SETTINGS = {"eval.every_versions": 8, "rollout.record_alternatives": 5, "goal.first_steps": 0, "goal.last_steps": 0}
RUNS = {"smoke": {}, "slow": {"trainer.learning_rate": "1.0e-4"}}  # settings by run


def train(binary, folder):
    """Trains the two runs that the tour compares, and returns their folder."""
    for name, settings in RUNS.items():
        overrides = [f"{key}={value}" for key, value in {**SETTINGS, **settings, "run.name": name, "run.root": f"{folder}/runs"}.items()]
        subprocess.run([binary, "train", "configs/smoke.yaml", *overrides], cwd=HERE.parent.parent, check=True)
    return f"{folder}/runs"


def take(binary, out, runs):
    place = pathlib.Path(runs)
    server = subprocess.Popen([binary, "view", place.name, "--files"], cwd=place.parent, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    try:
        link = page_tests.line_with(server, r"^(http\S+)", [])
        subprocess.run(["node", str(HERE / "pictures.mjs"), link, out, next(iter(RUNS))], cwd=HERE, check=True, timeout=300)
    finally:
        server.terminate()
        server.wait(30)


def main():
    binary, out = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    install_packages()
    os.makedirs(out, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ingot-pictures-") as folder:
        take(binary, out, os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 else train(binary, folder))
    for picture in sorted(pathlib.Path(out).glob("*.png")):
        size = picture.stat().st_size
        print(f"{picture.name}: {size:,} bytes")
        if size > MAX_BYTES:
            sys.exit(f"{picture} has {size:,} bytes; at most {MAX_BYTES:,} are allowed")


if __name__ == "__main__":
    main()
