#!/usr/bin/env python3
"""Compares the errors of Ingot's attention kernels with those of published ones on the stand-in: attention_errors_test.py LIBRARIES
forward|backward.

Exit code 77: the compiler or the package with the published kernel is missing.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import cutlass
import standin

PLAN = ("src/kernels/cuda/attention_plan.cc", "src/kernels/attention/tile_index.cc")
SOURCES = {"forward": ("tests/standin/attention_errors.cu", "src/kernels/cuda/attention_mma.cu", *PLAN),
           "backward": ("tests/standin/attention_backward_errors.cu", "src/kernels/cuda/attention_backward_mma.cu", *PLAN)}


def build(program, sources):
    compiler = cutlass.nvcc()
    example = cutlass.source() / "examples/41_fused_multi_head_attention"
    flags = ["-std=c++20" if flag == "-std=c++17" else flag for flag in cutlass.flags()]
    command = [compiler, *flags, f"-I{example}", f"-I{cutlass.ROOT}/src", f"-I{cutlass.ROOT}/tests", "-gencode", "arch=compute_80,code=compute_80", "-cudart", "shared",
               f"-L{compiler.parents[1]}/lib", *(cutlass.ROOT / source for source in sources), "-o", program]
    subprocess.run([str(word) for word in command], check=True)


def main():
    if missing := cutlass.missing():
        print(f"SKIPPED attention_errors_test: no {missing}")
        sys.exit(77)
    environment = {**os.environ, **standin.environment(sys.argv[1]), "INGOT_STANDIN_EMPTY_COPIES": "land"}
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "attention_errors"
        build(program, SOURCES[sys.argv[2]])
        done = subprocess.run([program], env=environment, capture_output=True, text=True)
    print(done.stdout + done.stderr)
    sys.exit(0 if done.returncode == 0 and "stand-in:" not in done.stderr else 1)


if __name__ == "__main__":
    main()
