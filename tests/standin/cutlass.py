"""Finds the CUDA compiler and CUTLASS's examples where a package has installed them, and compiles an example for the stand-in.

CUTLASS comes with the package nvidia-cutlass (the folder cutlass_library/source), curand_kernel.h with nvidia-curand. Both are looked for in
INGOT_CUTLASS_HOME and INGOT_CUDA_HOME, and in .venv. Nothing of them is part of this repository.
"""
import glob
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77


def skip(reason):
    print(f"SKIPPED {pathlib.Path(sys.argv[0]).stem}: {reason}")
    sys.exit(SKIPPED)


def find(what, places):
    for place in filter(None, places):
        if os.path.exists(place):
            return pathlib.Path(place)
    skip(f"no {what} (pip install nvidia-cutlass nvidia-curand; scripts/setup.sh cuda)")


def cuda_homes():
    site = glob.glob(str(ROOT / ".venv/lib/python3*/site-packages/nvidia/cu13"))
    return [home for home in (os.environ.get("INGOT_CUDA_HOME"), *site) if home]


def nvcc():
    return find("nvcc", [f"{home}/bin/nvcc" for home in cuda_homes()])


def source():
    """Returns the folder with CUTLASS's examples and headers."""
    home = os.environ.get("INGOT_CUTLASS_HOME")
    site = glob.glob(str(ROOT / ".venv/lib/python3*/site-packages/cutlass_library/source"))
    return find("CUTLASS", [home and f"{home}/include/cutlass/cutlass.h", *(f"{s}/include/cutlass/cutlass.h" for s in site)]).parents[2]


def flags():
    """Returns the compiler's flags for an example."""
    cutlass = source()
    find("curand_kernel.h", [f"{home}/include/curand_kernel.h" for home in cuda_homes()])
    folders = ("include", "tools/util/include", "examples/common")
    return ["-std=c++17", "-O3", "--expt-relaxed-constexpr", "-w", *(f"-I{cutlass}/{folder}" for folder in folders)]


def compile_example(example, program, architecture="arch=compute_80,code=compute_80", more=()):
    """Compiles source()/examples/EXAMPLE, with its kernels as PTX."""
    compiler, path = nvcc(), source() / "examples" / example
    command = [compiler, *flags(), f"-I{path.parent}", "-gencode", architecture, "-cudart", "shared",
               f"-L{compiler.parents[1]}/lib", *more, path, "-o", program]
    subprocess.run([str(word) for word in command], check=True)
