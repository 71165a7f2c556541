#!/usr/bin/env python3
"""Runs a program on the stand-in of the CUDA runtime: standin.py LIBRARIES PROGRAM [ARGUMENT ...].

LIBRARIES is the folder that the build fills, BUILD/tests/standin/lib. The program must open torch's CUDA libraries itself, as `ingot` with
device=cuda does (INGOT_CUDA_LIBRARY names libingot_cuda.so). Processes that the program starts run without the
stand-in unless INGOT_STANDIN_INHERIT is set, so PROGRAM is no `nice` or `timeout` that starts another.

INGOT_STANDIN_STREAMS    lazy (work runs when somebody waits for it), eager, or random by INGOT_STANDIN_SEED
INGOT_STANDIN_MEMORY_MB  each device's memory, 4096 unless set
INGOT_STANDIN_FAIL_MALLOC=N       the Nth allocation of device or pinned memory fails; INGOT_STANDIN_FAIL_MALLOC_FROM=N: all from the Nth on
INGOT_STANDIN_OTHER_MB            memory of each device that another process takes, after INGOT_STANDIN_OTHER_AFTER allocations of this one
INGOT_STANDIN_FAULT=illegal|launch|ecc with INGOT_STANDIN_FAULT_AT=N: the device fails for ever at the Nth launch
INGOT_STANDIN_FAULT_ONCE=FILE     only in the process that creates FILE, so that its successor runs
INGOT_STANDIN_INHERIT             set: processes that the program starts run on the stand-in too, as the roles of `ingot launch`
INGOT_STANDIN_DRIVER              CUDA version of the driver, such as 12040; 0 = no driver
INGOT_STANDIN_DEVICES    number of devices; INGOT_STANDIN_CAPABILITY: 80 or 90
INGOT_STANDIN_FRESH      what fresh device memory holds: nan, or zero for programs that count on it
INGOT_STANDIN_STATISTICS=1  counts of launches and instructions at the end, and a line for each group of NCCL that the process joins
INGOT_STANDIN_ARRIVAL    when asynchronous copies of a kernel land: late, early, or random; INGOT_STANDIN_RACES=0: no check for races
INGOT_STANDIN_EMPTY_COPIES  when copies that read nothing write their zeros: wait (as all copies), or land (at once; CUTLASS counts on it)
"""
import os
import pathlib
import sys


def environment(libraries):
    """The variables that a process needs to run on the stand-in, in addition to its own."""
    folder = pathlib.Path(libraries).resolve()
    earlier = os.environ.get("LD_LIBRARY_PATH", "")
    return {
        "LD_PRELOAD": str(folder / "libcudart.so.13"),
        "LD_LIBRARY_PATH": f"{folder}:{earlier}" if earlier else str(folder),
        "INGOT_STANDIN_EARLIER_LIBRARY_PATH": earlier,  # what the program's own processes get
        "GOMP_SPINCOUNT": "1000",  # as ingot sets it; otherwise it would start itself again, without the stand-in
    }


def main():
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    os.execvpe(sys.argv[2], sys.argv[2:], {**os.environ, **environment(sys.argv[1])})


if __name__ == "__main__":
    main()
