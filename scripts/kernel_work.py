"""Bytes and operations of the CUDA kernels that have no published peer to compare with, counted by hand.

Each count is the least that the kernel's definition allows, per unit, for bf16 with fp32 sums. `ptx_attention_test` compares the
bytes of DeltaKernel, the decode kernels, AdamWKernel, AddRowsKernel, DigestKernel, DrawKernel, and the kernels of norms, SwiGLU, and the
policy with those that they ask for.
"""
from dataclasses import dataclass

WIDTH, GROUP = 128, 4  # of a head, and query heads per kv head, as in Qwen3-8B


@dataclass
class Work:
    kernel: str
    unit: str
    count: str  # what is counted
    bytes: int
    operations: int


WORK = [
    Work("DeltaKernel", "row and head", "reads the output and its gradient, writes a sum", 2 * 2 * WIDTH + 4, 2 * WIDTH),
    Work("GradSinksKernel", "row and head", "reads a log-sum-exp and a sum; one exponential, product, and sum", 4 + 4, 3),
    Work("KeySumMmaKernel", "number of a part", "reads a partial sum of fp32 and adds it", 4, 1),
    Work("DecodeMmaKernel", "key and kv head", f"reads a key and a value for the {GROUP} query heads of a group",
         2 * 2 * WIDTH, 2 * 2 * WIDTH * GROUP),
    Work("DecodeMergeKernel", "chunk of a row", "reads a chunk's sums; two exponentials, and a product and a sum per number",
         4 * WIDTH + 8, 2 * (WIDTH + 1) + 2),
    Work("AddRowsKernel", "number of a row", "reads a number and adds it", 2, 1),
    Work("AdamWKernel", "parameter", "reads a gradient; reads and writes a master, two moments, and the parameter; two of the operations divide, "
         "and one is a root", 4 + 3 * 8 + 2 * 2, 14),
    Work("NormKernel", "number of a row", "reads a number and what is added to it, writes the sum and the result", 4 * 2, 5),
    Work("NormGradientKernel", "number of a row", "reads the gradients of the sum and the result, and the sum; writes a gradient", 4 * 2, 12),
    Work("HeadKernel", "number of a head", "reads and writes a number; a norm and a rotation", 2 * 2, 7),
    Work("PagesKernel", "number of a head", "reads and writes a number; a norm and a rotation, or a copy of a value", 2 * 2, 7),
    Work("GatherRowsKernel", "number of a row", "reads a number and writes it", 2 * 2, 0),
    Work("HeadGradientKernel", "number of a head", "reads a gradient and a number, writes a gradient", 3 * 2, 14),
    Work("SumPartsKernel", "number of a part", "reads a partial sum of fp32 and adds it", 4, 1),
    Work("SwiGluKernel", "number", "reads a gate and a factor, writes their product; an exponential and a division", 3 * 2, 5),
    Work("SwiGluGradientKernel", "number", "reads a gradient, a gate, and a factor; writes two gradients; an exponential and a division", 5 * 2, 10),
    Work("PolicyPartKernel", "entry of a row", "reads a logit of fp32; a comparison, a sum, a division, an exponential, and two sums", 4, 7),
    Work("LogPolicyKernel", "entry of a row", "reads a logit of fp32 and writes a log-prob; two sums and a division", 4 + 4, 3),
    Work("PolicyGradientKernel", "entry of a row", "reads a logit of fp32 and writes a gradient; as above, an exponential, and three operations", 4 + 2, 7),
    Work("CountChangesKernel", "group of 64 elements", "reads the marks; counts them", 8, 1),
    Work("GatherChangesKernel", "changed element of 2 bytes", "reads and writes an element, and writes its place", 2 * 2 + 1, 1),
    Work("DigestKernel", "stripe of 64 bytes", "reads eight words; a product and two sums per word", 64, 3 * 8),
    Work("DrawKernel", "entry of a row", "reads an entry; two sums, a product, an exponential, and a comparison", 4, 5),
]

# NVIDIA's data sheets (A100 80 GB SXM, H100 SXM, RTX 4090): memory in GB/s, fp32 without tensor cores in TFLOP/s.
RATES = {"A100": (2039, 19.5), "H100": (3350, 67), "4090": (1008, 82.6)}


def limit(work, gpu):
    """Returns what bounds the kernel, and the least nanoseconds for 1,000 units."""
    memory, math = RATES[gpu]
    times = {"memory": 1000 * work.bytes / memory, "fp32": work.operations / math}
    name = max(times, key=times.get)
    return name, times[name]


def work_table():
    """Returns a Markdown table with a line per kernel."""
    gpus = ", ".join(RATES)
    lines = [f"| kernel | unit | counted | bytes | operations | operations per byte | limit ({gpus}) | least ns per 1,000 units |",
             "| " + " | ".join(["---"] * 8) + " |"]
    for work in WORK:
        limits = [limit(work, gpu) for gpu in RATES]
        names = sorted({name for name, _ in limits})
        cells = [f"`{work.kernel}`" if "," not in work.kernel else work.kernel, work.unit, work.count, work.bytes, work.operations,
                 f"{work.operations / work.bytes:.2f}", " and ".join(names), ", ".join(f"{time:.0f}" for _, time in limits)]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)
