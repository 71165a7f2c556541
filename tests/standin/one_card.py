#!/usr/bin/env python3
"""A trainer and an engine on a stand-in GPU with exactly the planned memory: one_card.py BINARY SOURCE_DIR LIBRARIES LIBINGOT_CUDA [CASE ...].

The run must complete there, and its tensors must use at least SHARE of the plan. A smaller GPU must be refused with the plan's numbers. The
stand-in needs no workspaces for cuBLAS, so another process takes their share. Without CASE, runs what `make test` has."""
import math
import os
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "app" / "runs"))
from device_faults import ordered  # noqa: E402
from ingot_runs import Ingot, check, check_run, write_asking_config  # noqa: E402
from standin import environment  # noqa: E402
from whole_run import SETTINGS  # noqa: E402

SHARE = 0.8
MIB = 1 << 20
# Wide feed-forward layers: the interpreted kernels have little to do, and tensors are larger than the allocator's segments. A group fills a
# micro-batch, and a call fills the context.
TOKENS = 24
WIDE = {**SETTINGS, "data.sft": "", "scheduler.total_steps": 1, "model.intermediate_size": 24576,
        "gateway.max_new_tokens": TOKENS, "trainer.micro_batch_tokens": 128, "rollout.context_length": 128, "rollout.max_batch_tokens": 32, "rollout.kv_cache_tokens": 65536}
CASES = {
    "wide": {},
    "narrow": {"trainer.dtype": "bf16"},
    "adapters": {"trainer.lora.rank": 8, "trainer.reference_kl_coefficient": 0},
    "checkpointed": {"trainer.checkpoint_layers": "true", "model.layers": 2},
    # A cache of 100 MB and a step of 85 MB, which are never there at once.
    "turns": {"cluster.placement": "shared", "scheduler.max_staleness": 0, "scheduler.total_steps": 2, "rollout.kv_cache_tokens": 786432},
}


def plan_of(ingot, settings):
    """The rows of the plan, in bytes, as the check prints them."""
    done = ingot.ask(("config", "check"), settings)
    rows = re.findall(r"^  (\S.*?) +([0-9.]+) GB$", done.stderr, re.M)
    check(done.returncode == 0 and rows, f"no plan: {done.stderr}")
    return {name: float(number) * 1e9 for name, number in rows}


def fits_exactly(ingot, name):
    settings = {**WIDE, "run.name": name, **CASES[name]}
    plan = plan_of(ingot, settings)
    others = [plan[row] for row in ("cuBLAS workspaces", "unused in the allocator")]
    tensors = plan["planned"] - sum(others)
    mib = math.ceil((plan["planned"] + 1e6) / MIB)  # the check prints whole MB
    with ordered(MEMORY_MB=mib, OTHER_MB=round(others[0] / MIB), OTHER_AFTER=1):
        code, output = ingot.run("train", settings)
        check(code == 0, f"{name} on {mib} MiB: {output[-3000:]}")
    check(re.search(r"^memory plan for the trainer and an engine: ", output, re.M), f"no plan: {output[:2000]}")
    row = check_run(ingot, name, settings["scheduler.total_steps"])[-1]
    peak = row["perf/device_memory_peak_bytes"]
    print(f"{name}: planned {plan['planned'] / MIB:.0f} MiB, of which tensors {tensors / MIB:.0f}; they used {peak / MIB:.0f} "
          f"({peak / tensors:.2f})", flush=True)
    check(SHARE * tensors <= peak <= tensors + 1e6, f"{name}: tensors used {peak:.0f} of {tensors:.0f} planned bytes: {plan}")
    with ordered(MEMORY_MB=mib - 8):
        code, output = ingot.run("train", {**settings, "run.name": f"{name}-refused"})
        error = next((line for line in output.splitlines() if line.startswith("ingot: ")), "")
        check(code != 0 and "the GPU does not have enough memory for the run: the plan needs" in error and
              "What fits: rollout.kv_cache_tokens=" in error, f"{name} on {mib - 8} MiB: exit code {code}: {output[-3000:]}")


def main():
    libraries, library, *names = sys.argv[3:]
    os.environ.update(environment(libraries), INGOT_CUDA_LIBRARY=library)
    for name in names or ["wide"]:
        with tempfile.TemporaryDirectory(prefix="ingot-card-") as folder:
            ingot = Ingot(sys.argv[1], sys.argv[2], folder)
            write_asking_config(ingot, sampling=f'"max_tokens": {TOKENS}')
            fits_exactly(ingot, name)


if __name__ == "__main__":
    main()
