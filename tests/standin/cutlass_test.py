#!/usr/bin/env python3
"""Compiles an example of CUTLASS's package, unchanged, and runs it on the stand-in with every check: cutlass_test.py LIBRARIES NAME.

The examples are known to work on GPUs and verify their own results, so they test the stand-in and the machine that interprets PTX. Each
runs with copies that land late and early. Exit code 77: the compiler or the package is missing.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import cutlass
import standin

ATTENTION = "41_fused_multi_head_attention/fused_multihead_attention_fixed_seqlen.cu"
SMALL = "--head_number=2 --batch_size=1 --iterations=1"

# name: source, arguments of one run each, environment. Each run prints PASSED, and `zero` is for programs that multiply fresh memory by zero.
EXAMPLES = {
    "gemm": ("14_ampere_tf32_tensorop_gemm/ampere_tf32_tensorop_gemm.cu", ["--m=256 --n=128 --k=64 --iterations=1"], "nan"),
    "grouped_gemm": ("24_gemm_grouped/gemm_grouped.cu", ["--groups=3 --m=80 --n=72 --k=64 --iterations=1"], "zero"),
    "attention_64": (ATTENTION, [f"{SMALL} --head_size=64 --seq_length=96 --seq_length_kv=130",
                                 f"{SMALL} --head_size=40 --seq_length=70 --causal=true"], "zero"),
    "attention_128": (ATTENTION, [f"{SMALL} --head_size=128 --seq_length=40 --seq_length_kv=136"], "zero"),
    "attention_wide": (ATTENTION, [f"{SMALL} --head_size=160 --seq_length=40 --causal=true"], "zero"),
}


def run(libraries, program, arguments, arrival, fresh):
    environment = {**os.environ, **standin.environment(libraries), "INGOT_STANDIN_ARRIVAL": arrival,
                   "INGOT_STANDIN_FRESH": fresh, "INGOT_STANDIN_EMPTY_COPIES": "land", "INGOT_STANDIN_STATISTICS": "1"}
    done = subprocess.run([program, *arguments.split()], env=environment, capture_output=True, text=True)
    print(f"{arguments}, copies {arrival}: exit code {done.returncode}\n{done.stdout}{done.stderr}", flush=True)
    faults = [line for line in done.stderr.splitlines() if line.startswith("stand-in:") and "launches" not in line]
    return done.returncode == 0 and "Passed" in done.stdout and not faults


def main():
    libraries, name = sys.argv[1:]
    if missing := cutlass.missing():
        print(f"SKIPPED cutlass_test {name}: no {missing}")
        sys.exit(77)
    path, runs, fresh = EXAMPLES[name]
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "example"
        cutlass.compile_example(path, program)
        results = [run(libraries, program, arguments, arrival, fresh) for arguments in runs for arrival in ("late", "early")]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
