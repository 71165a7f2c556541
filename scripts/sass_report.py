#!/usr/bin/env python3
"""Counts the work of each GPU pipe in a kernel's inner loop, from its machine code, without a GPU.

  sass_report.py [OBJECT ...]           prints a table; without objects, compiles src/kernels/cuda/*.cu
    --only REGEX                        only kernels whose short name matches, such as ForwardKernel<BFloat16>
    --source NAME                       compiles NAME.cu alone
    --json FILE                         also writes the counts
    --expect FILE                       exit code 1 if a count of FILE grew by 5 %, or a kernel spills inside its loop
    --page FILE                         writes both tables between the page's markers
    --peers                             also compiles published kernels for comparison, if their package is installed

The second table has bytes and operations that were counted by hand (kernel_work.py).

It needs cuobjdump and nvdisasm (PyPI: nvidia-cuda-cuobjdump, nvidia-cuda-nvdisasm) and, without objects, nvcc. It looks
for them in INGOT_CUDA_HOME and .venv (scripts/setup.sh cuda). Exit code 77: one of them is missing.

A warp's time in a pipe is its instructions times the cycles that a quarter of an SM needs for each. Shares are relative
to the tensor pipe's time or, in a kernel without tensor instructions, the busiest pipe's. The counts show which pipe
limits a loop. They do not show its speed, because they exclude latencies, conflicts, and memory.
"""
import argparse
import glob
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kernel_work import work_table  # noqa: E402
from sass_loops import inner_loop, parse  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCES = ("src/kernels/cuda/attention.cu", "src/kernels/cuda/attention_backward_mma.cu", "src/kernels/cuda/attention_mma.cu",
           "src/kernels/cuda/decode.cu", "src/kernels/cuda/draw.cu", "src/kernels/cuda/product.cu")
# Shared memory that a launch asks for: sizeof(MmaMemory<width>), sizeof(GradQMemory<width>), SharedBytes(kFewRows), and so on.
DYNAMIC_SHARED = {"ForwardMmaKernel<64>": 37488, "ForwardMmaKernel<128>": 70256, "GradQMmaKernel<64>": 35184,
                  "GradQMmaKernel<128>": 67952, "GradKeysMmaKernel<64>": 18952, "GradKeysMmaKernel<128>": 35336, "DecodeMmaKernel<64>": 20264,
                  "DecodeMmaKernel<128>": 36648, "ProductMmaKernel<16, 64, 1, 8>": 40960, "ProductMmaKernel<64, 64, 2, 4>": 32768,
                  "ProductMmaKernel<128, 128, 2, 4>": 65536}
ARCHITECTURES = {"sm_80": "arch=compute_80,code=sm_80", "sm_90a": "arch=compute_90a,code=sm_90a"}
# Published kernels by their short names: CUTLASS's fused attention, compiled from the installed package (tests/standin/cutlass.py).
PEER_SOURCES = ("tests/kernels/sass/peer_forward.cu", "tests/kernels/sass/peer_backward.cu")
PEER_EXAMPLE = "41_fused_multi_head_attention"
PEERS = {"64, 64, 64, false, false, DefaultToBatchHook": "CUTLASS forward, width 64",
         "32, 128, 128, false, false, DefaultToBatchHook": "CUTLASS forward, width 128",
         "AttentionBackwardKernel": "CUTLASS backward, width 128"}
# Accesses to local memory in a loop that are known and accepted: all 255 registers are full.
ACCEPTED_SPILLS = {("ForwardMmaKernel<128>", "sm_90a"): 9, ("GradKeysMmaKernel<128>", "sm_80"): 2,
                   ("GradKeysMmaKernel<128>", "sm_90a"): 2}
TABLE, WORK_TABLE = "sass_report", "kernel_work"  # markers in the page
GROWTH = 1.05
SKIPPED = 77

# Cycles per warp instruction of a quarter of an SM, from the lanes in NVIDIA's tables of throughput (CUDA programming
# guide, arithmetic instructions). `tensor` is m16n8k16 with fp32 sums; mma.sync reaches 63 % of an H100's peak.
# `shared` is per wavefront of 128 bytes, of which an SM's four quarters share one per cycle.
GPUS = {
    "A100": {"code": "sm_80", "tensor": 8, "fma": 2, "alu": 2, "exp": 8, "fp64": 4, "shared": 4,
             "warps": 64, "blocks": 32, "shared_bytes": 164 << 10},
    "H100": {"code": "sm_90a", "tensor": 4 / 0.63, "fma": 1, "alu": 2, "exp": 8, "fp64": 2, "shared": 4,
             "warps": 64, "blocks": 32, "shared_bytes": 228 << 10},
    "4090": {"code": "sm_80", "tensor": 32, "fma": 1, "alu": 2, "exp": 8, "fp64": 64, "shared": 4,
             "warps": 48, "blocks": 24, "shared_bytes": 100 << 10},
}
PIPES = ("tensor", "fma", "alu", "exp", "fp64", "shared")
TENSOR = {"HMMA", "IMMA", "DMMA", "BMMA", "HGMMA", "IGMMA", "QGMMA", "QMMA"}
FMA = {"FFMA", "FMUL", "FADD", "IMAD", "HFMA2", "HADD2", "HMUL2", "HMNMX2", "FSWZADD", "IDP"}
FP64 = {"DFMA", "DMUL", "DADD", "DSETP", "DMNMX"}
EXP = {"MUFU", "F2F", "F2I", "I2F", "FRND", "POPC", "FLO", "BREV", "I2I"}
SHARED = {"LDS", "STS", "LDSM", "STSM", "ATOMS", "SHFL"}
GLOBAL = {"LDG", "STG", "LD", "ST", "LDGSTS", "ATOM", "ATOMG", "RED"}
LOCAL = {"LDL", "STL"}
OTHER = {"BRA", "BRX", "BSSY", "BSYNC", "BREAK", "EXIT", "RET", "CALL", "JMP", "WARPSYNC", "NOP", "BAR", "DEPBAR",
         "LDGDEPBAR", "MEMBAR", "ERRBAR", "CCTL", "LDC", "S2R", "S2UR", "SYNCS", "YIELD", "NANOSLEEP", "ELECT", "FENCE",
         "WARPGROUP", "ENDCOLLECTIVE", "CGAERRBAR", "UCGABAR", "BMOV", "PREEXIT", "ACQBULK"}


def pipe(one):
    """Returns the pipe of an instruction. The uniform datapath, control, and what never runs only take a slot of issue."""
    base = one.base
    if one.predicate == "@!PT":  # ptxas puts such loads before LDGSTS
        return "other"
    for name, bases in (("tensor", TENSOR), ("fma", FMA), ("fp64", FP64), ("exp", EXP), ("shared", SHARED),
                        ("global", GLOBAL), ("local", LOCAL), ("other", OTHER)):
        if base in bases:
            return name
    return "other" if base.startswith("U") or base == "R2UR" else "alu"


def wavefronts(one):
    """Returns the least wavefronts of an instruction on shared memory: 128 bytes each, without conflicts."""
    if one.base in ("LDSM", "STSM"):
        return int(one.name[-1]) if one.name[-1].isdigit() else 1
    return 4 if ".128" in one.name else 2 if ".64" in one.name else 1


def tensor_steps(one):
    """Returns a tensor instruction's products as a multiple of a warp's m16n8k16 (2,048)."""
    if found := re.search(r"\.(\d+)x(\d+)x(\d+)", one.name):  # wgmma, of which a warp does a quarter
        return int(found[1]) * int(found[2]) * int(found[3]) / 4 / 2048
    return 0.5 if "1688" in one.name else 1


def count(code):
    """Returns the counts of a loop's instructions for one warp."""
    counts = {"issue": len(code)}
    for name in (*PIPES, "global", "local"):
        counts[name] = sum(pipe(one) == name for one in code)
    counts["tensor"] = sum(tensor_steps(one) for one in code if pipe(one) == "tensor")
    counts["shared"] = sum(wavefronts(one) for one in code if pipe(one) == "shared")
    return counts


def math_of(code):
    """Returns the predicate for the instructions that mark a kernel's inner loop: tensor ones, or else FFMA and DFMA."""
    marks = TENSOR & {one.base for one in code} or {"FFMA", "DFMA"}
    return lambda one: one.base in marks


def shares(counts, gpu):
    """Returns each pipe's share of the time that the tensor pipe, or else the busiest one, needs; and that pipe's name."""
    rates = GPUS[gpu]
    cycles = {"issue": counts["issue"], **{name: counts[name] * rates[name] for name in PIPES}}
    whole = "tensor" if counts["tensor"] else max(cycles, key=cycles.get)
    return {name: value / cycles[whole] for name, value in cycles.items()}, whole


def resident(registers, shared_bytes, threads, gpu):
    """Returns how many blocks fit on an SM. Registers come in units of 256 per warp; a block reserves 1 KiB of shared."""
    limits, warps = GPUS[gpu], -(-threads // 32)
    per_warp = -(-registers * 32 // 256) * 256
    return min(limits["blocks"], limits["warps"] // warps, (65536 // per_warp) // warps,
               limits["shared_bytes"] // (shared_bytes + 1024))


def short(name):
    """Returns a demangled name without namespaces and parameters: ForwardKernel<BFloat16>."""
    tool = shutil.which("c++filt")
    full = subprocess.run([tool, name], capture_output=True, text=True).stdout.strip() if tool else name
    full = re.sub(r"\(.*\)$", "", re.sub(r"\w+::", "", full))
    return re.sub(r"^void ", "", full)


def resources(text):
    """Returns {mangled name: {registers, stack, shared}} of `cuobjdump -res-usage`."""
    pattern = r"Function (\S+):\s*\n\s*REG:(\d+) STACK:(\d+) SHARED:(\d+)"
    return {f[0]: dict(zip(("registers", "stack", "shared_bytes"), map(int, f[1:]))) for f in re.findall(pattern, text)}


def threads_of(text):
    """Returns {mangled name: threads of a block} of `cuobjdump -elf`, where the source gives launch bounds."""
    pattern = r"^\.nv\.info\.(\S+)\n((?:.+\n)*?\s*Attribute:\s*EIATTR_MAX_THREADS\n.*\n\s*Value:\s*(.*)\n)"
    return {f[0]: math.prod(int(word, 16) for word in f[2].split()) for f in re.findall(pattern, text, re.M)}


def analyze(sass, usage, elf):
    """Returns one row per kernel with an inner loop."""
    used, threads, rows = resources(usage), threads_of(elf), []
    for (code_for, name), code in parse(sass).items():
        loop = inner_loop(code, math_of(code))
        if not loop:
            continue
        facts = used.get(name, {"registers": 0, "stack": 0, "shared_bytes": 0})
        row = {"kernel": short(name), "code": code_for, "threads": threads.get(name, 0), **facts, "loop": count(loop)}
        row["shared_bytes"] += DYNAMIC_SHARED.get(row["kernel"], 0)
        rows.append(row)
    return rows


def table(rows):
    """Returns a Markdown table with a line per kernel and GPU."""
    lines = ["| kernel, GPU | limit | instructions | tensor | issue | fma | alu | exp | fp64 | shared | registers, threads "
             "| blocks (warps) per SM | stack, spills in the loop |", "| " + " | ".join(["---"] * 13) + " |"]
    for row in rows:
        for gpu in (name for name, limits in GPUS.items() if limits["code"] == row["code"]):
            share, whole = shares(row["loop"], gpu)
            blocks = resident(row["registers"], row["shared_bytes"], row["threads"], gpu) if row["threads"] else None
            fits = "unknown" if blocks is None else f"{blocks} ({blocks * -(-row['threads'] // 32)})"
            tensor = f"{row['loop']['tensor']:g}" if row["loop"]["tensor"] else "none"
            name = f"peer: {row['kernel']}" if row.get("peer") else f"`{row['kernel']}`"
            cells = [f"{name}, {gpu}", whole, row["loop"]["issue"], tensor]
            cells += [f"{share[name]:.2f}" for name in ("issue", *PIPES[1:])]
            cells += [f"{row['registers']}, {row['threads'] or 'unknown'}", fits,
                      f"{row['stack']} B, {row['loop']['local']}"]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def compare(rows, expected):
    """Returns one line per count that grew, per kernel that spills inside its loop, and per kernel that is missing.

    Peers are there to compare with, and change with their package."""
    have = {(row["kernel"], row["code"]): row for row in rows}
    faults = []
    for old in (row for row in expected if not row.get("peer")):
        name = f"{old['kernel']} ({old['code']})"
        new = have.get((old["kernel"], old["code"]))
        if new is None:
            faults.append(f"{name}: no such kernel with an inner loop")
            continue
        pairs = {"registers": (old["registers"], new["registers"])}
        pairs |= {key: (value, new["loop"][key]) for key, value in old["loop"].items() if key != "local"}
        faults += [f"{name}: {key} grew from {was:g} to {now:g}" for key, (was, now) in pairs.items() if now > was * GROWTH]
        if new["loop"]["local"] > ACCEPTED_SPILLS.get((old["kernel"], old["code"]), 0):
            faults.append(f"{name}: {new['loop']['local']} accesses to local memory inside the loop")
    return faults


def find_tool(name):
    homes = [os.environ.get("INGOT_CUDA_HOME", "")] + glob.glob(str(ROOT / ".venv/lib/python3*/site-packages/nvidia/cu13"))
    for home in filter(None, homes):
        if os.access(path := os.path.join(home, "bin", name), os.X_OK):
            return path
    if found := shutil.which(name):
        return found
    print(f"SKIPPED sass_report: no {name} in INGOT_CUDA_HOME, .venv, or PATH (scripts/setup.sh cuda)")
    sys.exit(SKIPPED)


def compile_kernels(folder, only=None):
    """Compiles the kernels (of source `only`, if given) as cmake/IngotCuda.cmake does, one file per architecture."""
    nvcc, made = find_tool("nvcc"), []
    for source in (one for one in SOURCES if only in (None, pathlib.Path(one).stem)):
        for name, code in ARCHITECTURES.items():
            made.append(os.path.join(folder, f"{pathlib.Path(source).stem}.{name}.cubin"))
            subprocess.run([nvcc, "-std=c++20", "-O3", "-gencode", code, f"-I{ROOT}/src", "-cubin", str(ROOT / source), "-o",
                            made[-1]], check=True)
    return made


def compile_peers(folder):
    """Compiles the published kernels for sm_80. Returns an empty list, and prints why, if the package is not installed."""
    sys.path.insert(0, str(ROOT / "tests/standin"))
    import cutlass
    missing = cutlass.missing()
    if missing:
        print(f"SKIPPED the peers of sass_report: no {missing}")
        return []
    made = []
    for source in PEER_SOURCES:
        made.append(os.path.join(folder, f"{pathlib.Path(source).stem}.cubin"))
        subprocess.run([find_tool("nvcc"), *cutlass.flags(), f"-I{cutlass.source()}/examples/{PEER_EXAMPLE}", "-gencode",
                        ARCHITECTURES["sm_80"], "-cubin", str(ROOT / source), "-o", made[-1]], check=True)
    return made


def peer_rows(folder):
    rows = rows_of(compile_peers(folder))
    for row in rows:
        label = next(label for words, label in PEERS.items() if words in row["kernel"])
        row |= {"kernel": label, "peer": True}
    return rows


def rows_of(objects):
    dump = find_tool("cuobjdump")
    path = os.path.dirname(find_tool("nvdisasm"))  # cuobjdump runs it
    environment = {**os.environ, "PATH": f"{path}:{os.environ.get('PATH', '')}"}

    def read(option, file, *more):
        command = [dump, option, *more, file]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout

    rows = []
    for file in objects:  # a file may have a kernel for several architectures
        for name in sorted({code for code, _ in parse(read("-sass", file))}):
            rows += analyze(*(read(option, file, "-arch", name) for option in ("-sass", "-res-usage", "-elf")))
    return rows


def write_page(path, marker, text):
    """Replaces what stands between `<!-- marker -->` and `<!-- /marker -->`."""
    page = pathlib.Path(path).read_text()
    begin, end = f"<!-- {marker} -->", f"<!-- /{marker} -->"
    before, rest = page.split(begin, 1)
    pathlib.Path(path).write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end, 1)[1]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("objects", nargs="*")
    for option in ("--only", "--source", "--json", "--expect", "--page"):
        parser.add_argument(option)
    parser.add_argument("--peers", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [row for row in rows_of(args.objects or compile_kernels(folder, args.source)) if re.search(args.only or "", row["kernel"])]
        rows += peer_rows(folder) if args.peers else []
    rows.sort(key=lambda row: (row.get("peer", False), row["kernel"], row["code"]))
    print(f"{table(rows)}\n\n{work_table()}")
    if args.json:
        pathlib.Path(args.json).write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    if args.page:
        write_page(args.page, TABLE, table(rows))
        write_page(args.page, WORK_TABLE, work_table())
    expected = json.loads(pathlib.Path(args.expect).read_text()) if args.expect else []
    faults = compare(rows, [row for row in expected if re.search(args.only or "", row["kernel"])])
    for fault in faults:
        print(f"sass_report: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
