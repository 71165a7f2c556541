#!/usr/bin/env python3
"""A whole run with device=cuda on the stand-in: whole_run.py BINARY SOURCE_DIR LIBRARIES LIBINGOT_CUDA [DTYPE [NUMERICS]].

Warm start, episodes of real agents, steps, publication, checkpoints, kill -9 and resume, at a shape that the interpreted kernels finish:
one layer of width 32. The laws of a run are those of every other test (tests/app/runs/ingot_runs.py). INGOT_STANDIN_STREAMS orders the
mode of the streams."""
import os
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "app" / "runs"))
from ingot_runs import Ingot, check, check_run, scrape, wait_until, write_asking_config  # noqa: E402
from standin import environment  # noqa: E402

STEPS = 2  # the second by the resumed run
GRAPH_STEPS = 8  # with CUDA graphs: the gauge that shows them is read every five seconds
# Two supervised steps, then groups whose rewards differ by chance. Small parts, because their largest bounds what is timed for the step's
# bound, and no scoring for the trust region.
SETTINGS = {
    "run.name": "standin", "device": "cuda", "model.chat_format": "compact", "data.sft": "examples/smoke/sft.jsonl", "sft.epochs": 0,
    "sft.max_steps": 2, "sft.batch_size": 2, "scheduler.groups_per_step": 2, "trainer.checkpoint_every": 1,
    "trainer.reference_kl_coefficient": 0.03, "trainer.micro_batch_tokens": 256, "trainer.max_step_kl": 0, "trainer.max_step_kl_position": 0, "rollout.max_running": 8,
    "rollout.kv_cache_tokens": 4096}


def checkpoints(ingot, name):
    folder = pathlib.Path(ingot.folder) / name / "checkpoints"
    return {path.name for path in folder.glob("step-*")} if folder.is_dir() else set()


def graph_count(ingot, what):
    return float(re.search(rf"^device_graph_{what}\S* (\S+)$", scrape(f"{ingot.folder}/standin", "ingot"), re.M)[1])


def kill_after_a_step(ingot, graphs):
    """Kills a run with its first step and checkpoint, and with decode steps that ran as `graphs`. Returns its output, and
    prints it if the run ends before."""
    output = pathlib.Path(ingot.folder) / "output"
    with output.open("w") as file:
        process = ingot.start("train", SETTINGS, output=file)
    try:
        wait_until(lambda: len(ingot.steps_trained("standin")) >= 1 and checkpoints(ingot, "standin"), "a step and its checkpoint",
                   process, seconds=900)
        if graphs:
            wait_until(lambda: graph_count(ingot, "replays") > 0, "a decode step that ran as a CUDA graph", process, seconds=60)
            check(graph_count(ingot, "failures") == 0, "a decode step could not be recorded as a CUDA graph")
    except SystemExit:
        print(output.read_text()[-4000:])
        raise
    process.kill()
    process.wait()
    return output.read_text()


def main():
    binary, source, libraries, library = sys.argv[1:5]
    if len(sys.argv) > 5:
        SETTINGS["trainer.dtype"] = sys.argv[5]  # bf16: attention and decode with tensor cores
    exact = sys.argv[6:] == ["exact"]
    if exact:
        SETTINGS["numerics"] = "exact"
    graphs = exact and sys.argv[5] == "bf16"
    steps = GRAPH_STEPS if graphs else STEPS
    SETTINGS.update({"scheduler.total_steps": steps, "rollout.cuda_graphs": str(graphs).lower()})
    os.environ.update(environment(libraries), INGOT_CUDA_LIBRARY=library)
    with tempfile.TemporaryDirectory(prefix="ingot-standin-") as folder:
        ingot = Ingot(binary, source, folder)
        write_asking_config(ingot, sampling='"max_tokens": 8')
        killed = kill_after_a_step(ingot, graphs)
        before = ingot.steps_trained("standin")
        logs = "".join(path.read_text() for path in (pathlib.Path(folder) / "standin" / "logs").glob("*.log"))
        check("device cuda:0, stand-in" in logs, f"the run used no device: {killed}")
        code, output = ingot.run("train", SETTINGS, ("--resume",))
        check(code == 0, output)
        check("stand-in:" not in killed + output, f"the stand-in reported a fault: {killed}{output}")
        rows = check_run(ingot, "standin", steps)
        after = ingot.steps_trained("standin")
        check(all(step in after for step in before), f"steps before the kill {sorted(before)}, after it {sorted(after)}")
        check(any(row["actor/grad_norm"] > 0 for row in rows), "no step had a gradient")
        largest = max(row["mismatch/logprob_abs_diff_max"] for row in rows)
        check(not exact or largest == 0, f"numerics are exact, but a log-prob differs by {largest}")
        check(not exact or all(row["mismatch/probe_tokens"] > 0 for row in rows), "no log-prob was compared")
        print(f"{steps} steps, killed after {len(before)}, largest log-prob difference {largest:.2g}")


if __name__ == "__main__":
    main()
