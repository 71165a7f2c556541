"""Finds the CUDA compiler and CUTLASS's examples where a package has installed them, and compiles an example for the stand-in.

CUTLASS comes with the package nvidia-cutlass (the folder cutlass_library/source), curand_kernel.h with nvidia-curand. Both are looked for in
INGOT_CUTLASS_HOME and INGOT_CUDA_HOME, and in .venv. Nothing of them is part of this repository.
"""
import glob
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def first(places):
    return next((pathlib.Path(place) for place in filter(None, places) if os.path.exists(place)), None)


def cuda_homes():
    site = glob.glob(str(ROOT / ".venv/lib/python3*/site-packages/nvidia/cu13"))
    return [home for home in (os.environ.get("INGOT_CUDA_HOME"), *site) if home]


def nvcc():
    return first(f"{home}/bin/nvcc" for home in cuda_homes())


def source():
    """Returns the folder with CUTLASS's examples and headers, or None."""
    site = glob.glob(str(ROOT / ".venv/lib/python3*/site-packages/cutlass_library/source"))
    homes = [home for home in (os.environ.get("INGOT_CUTLASS_HOME"), *site) if home]
    found = first(f"{home}/include/cutlass/cutlass.h" for home in homes)
    return found and found.parents[2]


def missing():
    """Returns what is not installed, with the packages that bring it, or an empty string."""
    have = {"nvcc (nvidia-cuda-nvcc)": nvcc(), "CUTLASS (nvidia-cutlass)": source(),
            "curand_kernel.h (nvidia-curand)": first(f"{home}/include/curand_kernel.h" for home in cuda_homes())}
    names = [name for name, path in have.items() if path is None]
    return f"{', '.join(names)}: scripts/setup.sh cuda" if names else ""


def flags():
    """Returns the compiler's flags for an example."""
    folders = ("include", "tools/util/include", "examples/common")
    return ["-std=c++17", "-O3", "--expt-relaxed-constexpr", "-w", *(f"-I{source()}/{folder}" for folder in folders)]


def compile_example(example, program, architecture="arch=compute_80,code=compute_80", more=()):
    """Compiles source()/examples/EXAMPLE, with its kernels as PTX."""
    compiler, path = nvcc(), source() / "examples" / example
    command = [compiler, *flags(), f"-I{path.parent}", "-gencode", architecture, "-cudart", "shared",
               f"-L{compiler.parents[1]}/lib", *more, path, "-o", program]
    subprocess.run([str(word) for word in command], check=True)
