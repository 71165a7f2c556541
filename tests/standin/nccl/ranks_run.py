#!/usr/bin/env python3
"""Two ranks train a launched run on two devices of the stand-in: ranks_run.py BINARY SOURCE_DIR LIBRARIES LIBINGOT_CUDA [CASE ...].

Their tensors go over NCCL (communicator.h). The run is supervised fine-tuning of a tiny model. Without CASE, runs the
one that compares devices with CPUs."""
import os
import pathlib
import re
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).parents[1]), str(pathlib.Path(__file__).parents[2] / "app" / "runs")]
from ingot_runs import GROUPS, Ingot, check, finish_launched, role_process, wait_for_rows, wait_until, write_asking_config  # noqa: E402
from model_run_tests import tensors  # noqa: E402
from standin import environment  # noqa: E402
from whole_run import SETTINGS as WHOLE_RUN  # noqa: E402

STEPS = 4
SETTINGS = {"data.tasks": "", "data.sft": "examples/smoke/sft.jsonl", "model.chat_format": "compact", "sft.epochs": 0, "sft.max_steps": STEPS,
            "sft.batch_size": 4, "sft.checkpoint_every": 1, "trainer.micro_batch_tokens": 256, "cluster.trainer_ranks": 2}
TOLERANCE = 1e-5  # of a tensor's norm, between the CPU's attention and the device's


def weights_of(ingot, name):
    """The floats of the run's model by tensor."""
    files = sorted(pathlib.Path(ingot.folder, name, "checkpoints").glob("step-*/model*.safetensors"))
    check(files, f"{name} has no model: {sorted(map(str, pathlib.Path(ingot.folder, name).rglob('*')))}")
    return {tensor: floats for path in files for tensor, floats in tensors(path)[1].items()}


def norm(values):
    return sum(value * value for value in values) ** 0.5


def logs_of(ingot, name):
    return {path.stem: path.read_text() for path in pathlib.Path(ingot.folder, name, "logs").glob("*.log")}


def start(ingot, name, **settings):
    return ingot.start("launch", {**SETTINGS, "run.name": name, **settings})


def finish(ingot, launch, name):
    """Waits for the end of the run, which must succeed. Returns its output."""
    output, _ = launch.communicate(timeout=600)
    check(launch.returncode == 0, f"{name}: exit code {launch.returncode}: {output}{logs_of(ingot, name)}")
    steps = [row["step"] for row in ingot.metrics(name)]
    check(steps == list(range(STEPS)), f"{name}: steps {steps}")
    return output


def train(ingot, name, **settings):
    finish(ingot, start(ingot, name, **settings), name)
    return weights_of(ingot, name)


def ranks_on_devices_equal_ranks_on_cpus(ingot):
    hosts, devices = train(ingot, "hosts", device="cpu"), train(ingot, "devices", device="cuda")
    logs = logs_of(ingot, "devices")
    for rank, log in (("trainer", "cuda:0"), ("trainer-1", "cuda:1")):
        check(f"device {log}, stand-in" in logs[rank], f"{rank} did not use {log}: {logs[rank]}")
        check(re.search(r"stand-in: NCCL rank \d of 2", logs[rank]), f"{rank} did not use NCCL: {logs[rank]}")
    check(hosts.keys() == devices.keys(), f"{hosts.keys()} {devices.keys()}")
    largest = max(norm([a - b for a, b in zip(hosts[name], devices[name])]) / norm(hosts[name]) for name in hosts)
    losses = [max(abs(a["sft/nll"] - b["sft/nll"]) for a, b in zip(ingot.metrics("hosts"), ingot.metrics("devices")))]
    print(f"{STEPS} steps of 2 ranks: largest difference {largest:.2g} of a tensor's norm, {losses[0]:.2g} of the loss", flush=True)
    check(largest <= TOLERANCE, f"the weights differ by {largest}")


def a_rank_that_is_killed_or_whose_device_fails(ingot):
    """All ranks start again from the last checkpoint, and come to the same bits."""
    whole = train(ingot, "whole", device="cuda")
    launch = start(ingot, "killed", device="cuda")
    wait_for_rows(ingot, launch, "killed", 1)
    os.kill(role_process(launch, "trainer-1"), 9)
    output = finish(ingot, launch, "killed")
    check("trainer-1 was killed by signal 9" in output and "all of trainer ended; they are started again together" in output, output)
    lost = r"rank 1 of 2 disconnected unexpectedly( while this rank waited for .*)?; all ranks restart from the last checkpoint"
    check(re.search(lost, logs_of(ingot, "killed")["trainer"]), f"{logs_of(ingot, 'killed')}")
    check(weights_of(ingot, "killed") == whole, "a killed rank changed the weights")

    os.environ.update(INGOT_STANDIN_FAULT="ecc", INGOT_STANDIN_FAULT_AT="20", INGOT_STANDIN_FAULT_ONCE=f"{ingot.folder}/once")
    output = finish(ingot, start(ingot, "faulted", device="cuda"), "faulted")
    check(re.search(r"trainer(-1)? exited with 76: .*uncorrectable ECC error encountered \(error 214\)", output), output)
    check("all of trainer ended; they are started again together" in output, output)
    check(weights_of(ingot, "faulted") == whole, "a device that failed changed the weights")


def weights_go_to_the_engines(ingot):
    """The trainer on the first device broadcasts its weights to engines on two others. One engine is killed."""
    os.environ["INGOT_STANDIN_DEVICES"] = "3"
    write_asking_config(ingot, sampling='"max_tokens": 8')
    settings = {**WHOLE_RUN, "run.name": "sent", "scheduler.total_steps": 4, "cluster.rollout_engines": 2, "weights.transport": "broadcast"}
    launch = ingot.start("launch", settings)
    grouped = "weights are broadcast to 2 engines"
    wait_until(lambda: logs_of(ingot, "sent").get("trainer", "").count(grouped) == 1, "a group of two engines", launch)
    wait_for_rows(ingot, launch, "sent", 1)
    os.kill(role_process(launch, "rollout-1"), 9)
    finish_launched(ingot, launch, "sent", 4)
    logs = logs_of(ingot, "sent")
    for role, rank in (("trainer", 0), ("rollout-0", 1), ("rollout-1", 2)):
        check(f"NCCL rank {rank} of 3" in logs[role], f"{role} was not rank {rank}: {logs[role]}")
    check("to each engine directly until a new broadcast group forms" in logs["trainer"], f"the loss of an engine: {logs['trainer']}")


CASES = (weights_go_to_the_engines, ranks_on_devices_equal_ranks_on_cpus, a_rank_that_is_killed_or_whose_device_fails)


def main():
    binary, source, libraries, library, *names = sys.argv[1:]
    cases = {case.__name__: case for case in CASES}
    for name in names or [ranks_on_devices_equal_ranks_on_cpus.__name__]:
        with tempfile.TemporaryDirectory(prefix="ingot-ranks-") as folder:
            os.environ.update(environment(libraries), INGOT_CUDA_LIBRARY=library, INGOT_STANDIN_DEVICES="2", INGOT_STANDIN_INHERIT="1",
                              INGOT_STANDIN_STATISTICS="1", TMPDIR=folder)
            ingot = Ingot(binary, source, folder)
            ingot.configure("ranks", {key: GROUPS[key] for key in ("run", "model", "trainer", "http")})
            cases[name](ingot)
        print(f"{name}: passed", flush=True)


if __name__ == "__main__":
    main()
