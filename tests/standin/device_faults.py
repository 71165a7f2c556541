#!/usr/bin/env python3
"""Faults of a GPU, ordered of the stand-in: device_faults.py BINARY SOURCE_DIR LIBRARIES LIBINGOT_CUDA [CASE ...].

A run that meets one ends by itself with an exit code and one line that names the fault and what to do, and can be resumed. Without CASE,
runs the few that `make test` has."""
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "app" / "runs"))
from ingot_runs import Ingot, check, check_run, finish_launched, write_asking_config  # noqa: E402
from standin import environment  # noqa: E402
from whole_run import SETTINGS  # noqa: E402

ONE_STEP = {**SETTINGS, "scheduler.total_steps": 1}
SECONDS = 300  # a run that takes longer hangs
# What makes a device unusable at the start, and what its line says.
UNUSABLE = (
    ({"DEVICES": 0}, "the driver shows no CUDA device"),
    ({"CAPABILITY": 75}, "is sm_75; the kernels need sm_80 or newer"),
    ({"DRIVER": 12040}, "supports CUDA 12.4, but the library uses CUDA 13.0, which needs driver 580 or newer"),
    ({"DRIVER": 0}, "this machine has no NVIDIA driver; the library uses CUDA 13.0, which needs driver 580 or newer"),
)
RESTART = "restart"  # what every line about a lost device says
FAULTS = (("illegal", "an illegal memory access was encountered (error 700)"), ("launch", "unspecified launch failure (error 719)"),
          ("ecc", "uncorrectable ECC error encountered (error 214); the GPU's hardware reported a fault"))


@contextlib.contextmanager
def ordered(**orders):
    """Orders faults of the stand-in for the programs that start inside the block."""
    names = {f"INGOT_STANDIN_{name}": str(value) for name, value in orders.items()}
    os.environ.update(names)
    try:
        yield
    finally:
        for name in names:
            del os.environ[name]


class Case:
    def __init__(self, folder):
        self.ingot = Ingot(sys.argv[1], sys.argv[2], folder)
        write_asking_config(self.ingot, sampling='"max_tokens": 8')

    def train(self, name, *extra, **settings):
        """The exit code and the output of a run of one step, which must end by itself."""
        settings = {**ONE_STEP, "run.name": name, **settings}
        try:
            code, output = self.ingot.run("train", settings, extra, timeout=SECONDS)
        except subprocess.TimeoutExpired as late:
            check(False, f"{name} did not end: {late.stdout}")
        check(code >= 0, f"{name} was killed by signal {-code}: {output[-3000:]}")
        return code, output

    def fails(self, name, words, **settings):
        """Expects a run that ends with an error of all `words`. Returns its output."""
        code, output = self.train(name, **settings)
        lines = re.findall(r"^ingot: .*", output, re.M)
        check(code in (1, 2) and len(lines) == 1, f"{name}: exit code {code}: {output[-3000:]}")
        check(all(word in lines[0] for word in words), f"{name} said: {lines[0]}")
        return output


def an_unusable_device(case):
    """`doctor` names it, `cuda` is an error, and `auto` computes on the CPU and says so."""
    for number, (orders, words) in enumerate(UNUSABLE):
        with ordered(**orders):
            doctor = case.ingot.call("doctor").stdout
            check(re.search(rf"GPU +.*{re.escape(words)}", doctor), f"{orders}: {doctor}")
            case.fails(f"unusable-{number}", ("device is cuda, but", words, "use device=cpu, or device=auto"))
    with ordered(DRIVER=12040):
        code, output = case.train("auto", device="auto")
        check(code == 0, output)
        check(re.search(r" W ingot: device auto: cpu, .*needs driver 580", output), output[:3000])


LARGE_CACHE = {"rollout.kv_cache_tokens": 65536}  # several allocations of device memory, not one


def a_device_that_another_process_fills(case):
    """Too little memory is found before anything is allocated. Memory that goes later ends the run, or is not missed."""
    with ordered(OTHER_MB=4095):
        case.fails("full", ("the GPU does not have enough memory for the run", "rollout.kv_cache_tokens", "trainer.micro_batch_tokens"),
                   **LARGE_CACHE)
    outcomes = []
    for after in (1, 2, 3):
        with ordered(OTHER_MB=4095, OTHER_AFTER=after):
            outcomes.append(completes_or_is_out_of_memory(case, f"shrinks-{after}", **LARGE_CACHE))
    check("out of memory" in outcomes, f"no run missed the memory: {outcomes}")


def completes_or_is_out_of_memory(case, name, **settings):
    code, output = case.train(name, **settings)
    if code == 0:
        return "complete"
    lines = re.findall(r"^ingot: .*", output, re.M)
    check(len(lines) == 1 and "out of memory" in lines[0], f"{name}: exit code {code}: {output[-3000:]}")
    check("lower " in lines[0], f"{name} says not what to do: {lines[0]}")
    return "out of memory"


def fails_at(case, kind, number):
    """A run during which the allocation fails, or all from it on."""
    with ordered(**{"FAIL_MALLOC" if kind == "only" else "FAIL_MALLOC_FROM": number}):
        return completes_or_is_out_of_memory(case, f"{kind}-{number}")


def an_allocation_that_fails(case):
    """torch asks again after it has freed what it kept, so one failure of device memory is no error."""
    check(fails_at(case, "from", 3) == "out of memory", "all from the third on failed, and nobody missed them")
    fails_at(case, "only", 2)


def every_allocation_that_fails(case):
    """Each allocation of a run and all later ones fail, then each alone."""
    number = 1
    while fails_at(case, "from", number) == "out of memory":
        number += 1
    check(number > 5, f"a run has only {number - 1} allocations")
    outcomes = [fails_at(case, "only", n) for n in range(1, number)]
    print(f"{number - 1} allocations; {outcomes.count('complete')} runs completed without one of them", flush=True)


def a_device_that_fails(case):
    """The run ends with the fault, and completes when it is resumed."""
    kind, words = FAULTS[2]
    with ordered(FAULT=kind, FAULT_AT=30):
        case.fails("lost", (words, RESTART))
    code, output = case.train("lost", "--resume")
    check(code == 0, output)
    check_run(case.ingot, "lost", 1)


def a_device_that_fails_at_any_launch(case):
    """At launches further and further apart, until the run has fewer."""
    launch = 1
    while True:
        kind, words = FAULTS[launch % len(FAULTS)]
        with ordered(FAULT=kind, FAULT_AT=launch):
            code, output = case.train(f"lost-at-{launch}")
        if code == 0:
            break
        lines = re.findall(r"^ingot: .*", output, re.M)
        check(len(lines) == 1 and words in lines[0] and RESTART in lines[0], f"at launch {launch}: {output[-3000:]}")
        launch += max(1, launch // 4)
    check(launch > 40, f"a run has fewer than {launch} launches")


def a_role_whose_device_fails(case):
    """The supervisor starts a role again whose device has failed, and the run completes."""
    once = pathlib.Path(case.ingot.folder, "faulted")
    name = "launched"
    with ordered(FAULT="ecc", FAULT_AT=20, FAULT_ONCE=once, INHERIT=1):
        launch = case.ingot.start("launch", {**ONE_STEP, "run.name": name})
        output, _ = finish_launched(case.ingot, launch, name, 1)
    check(once.exists(), "no role had a fault")
    logs = "".join(path.read_text() for path in pathlib.Path(case.ingot.folder, name, "logs").glob("*.log"))
    check(any(FAULTS[2][1] in line for line in re.findall(r"^ingot: .*", logs, re.M)), f"no role named the fault: {output}")


FEW = (an_unusable_device, an_allocation_that_fails, a_device_that_fails)
MANY = (a_device_that_another_process_fills, a_role_whose_device_fails, every_allocation_that_fails, a_device_that_fails_at_any_launch)


def main():
    libraries, library, *names = sys.argv[3:]
    os.environ.update(environment(libraries), INGOT_CUDA_LIBRARY=library)
    cases = {case.__name__: case for case in FEW + MANY}
    for name in names or [case.__name__ for case in FEW]:
        with tempfile.TemporaryDirectory(prefix="ingot-faults-") as folder:
            cases[name](Case(folder))
        print(f"{name}: passed", flush=True)


if __name__ == "__main__":
    main()
