#!/usr/bin/env python3
"""Exchanges between devices, by processes on the stand-in: ranks_test.py RANK_PROGRAM LIBRARIES LIBINGOT_CUDA.

The program is nccl/rank_main.cc. Every collective gives the bits of the one between CPUs. If a rank is killed or stopped in the middle of the
exchanges, each other rank ends in time with an error that names the collective and the rank, or the deadline."""
import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from standin import environment  # noqa: E402

START_SECONDS = 240  # each process loads torch's CUDA libraries
END_SECONDS = 60     # from the death on; the deadline is 6 s
# The case, the number of ranks, and the error of every rank but the last; None = all ranks end without one.
CASES = (("kill", 4, r"(broadcast|gather): rank 3 of 4 (disconnected unexpectedly|was reported lost by rank 0)"),
         ("stop", 2, r"(broadcast|gather): rank 1 of 2 sent no heartbeat for 6000 ms"),
         ("versions", 2, None),
         ("versions", 4, None),
         ("weights", 3, r"the broadcast to 2 engines failed: it did not finish within 6000 ms"))


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


def fail(case, why, outputs):
    print(f"FAILED: {case}: {why}")
    for rank, output in enumerate(outputs):
        print(f"--- rank {rank}\n{output.read_text()}")
    sys.exit(1)


def wait_for(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def run(case, size, error, program, folder):
    ports = free_ports(2)
    outputs = [folder / f"{case}-{size}-{rank}" for rank in range(size)]
    with contextlib.ExitStack() as stack:
        ranks = []
        for rank in range(size):
            file = stack.enter_context(outputs[rank].open("w"))
            ranks.append(subprocess.Popen([program, case, str(rank), str(size), *map(str, ports)], stdout=file, stderr=subprocess.STDOUT))
        stack.callback(lambda: [(one.kill(), one.wait()) for one in ranks if one.poll() is None])
        last = ranks[-1]

        def all_equal():
            return all(f"{rank} equal" in outputs[rank].read_text() for rank in range(size))

        started = wait_for(lambda: all_equal() or any(one.poll() for one in ranks), START_SECONDS)
        if not started or not all_equal():
            fail(case, f"the collectives differ or did not end: {[one.poll() for one in ranks]}", outputs)
        if error is None:
            codes = [one.wait(timeout=END_SECONDS) for one in ranks]
            if any(codes):
                fail(case, f"exit codes {codes}", outputs)
            print(f"{case}: {size} ranks, equal", flush=True)
            return
        began = time.monotonic()
        if not wait_for(lambda: all(one.poll() is not None for one in ranks[:-1]), END_SECONDS):
            fail(case, f"the other ranks still run: {[one.poll() for one in ranks]}", outputs)
        seconds = time.monotonic() - began
        if case != "stop" and last.wait(timeout=10) != -signal.SIGKILL:
            fail(case, f"the last rank was not killed: {last.returncode}", outputs)
        for rank in range(size - 1):
            if ranks[rank].returncode != 0 or not re.search(rf"^{rank} lost: {error}", outputs[rank].read_text(), re.M):
                fail(case, f"rank {rank} ended with {ranks[rank].returncode}, not with: {error}", outputs)
        print(f"{case}: {size} ranks, equal; the others ended {seconds:.1f} s after the start of the second part", flush=True)


def main():
    program, libraries, library = sys.argv[1:4]
    with tempfile.TemporaryDirectory(prefix="ingot-nccl-") as folder:
        os.environ.update(environment(libraries), INGOT_CUDA_LIBRARY=library, INGOT_STANDIN_DEVICES="4", TMPDIR=folder)
        for case, size, error in CASES:
            run(case, size, error, program, pathlib.Path(folder))


if __name__ == "__main__":
    main()
