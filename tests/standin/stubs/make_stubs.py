#!/usr/bin/env python3
"""make_stubs.py TORCH_LIB_FOLDER RUNTIME OUTPUT_FOLDER COMPILER: builds a stub of every library that libtorch_cuda.so names and the CPU-only
installation lacks. A stub has the symbols that torch's libraries name; each ends the process with its own name when it is called. Symbols that RUNTIME, the stand-in's libcudart.so.13, defines are its own: torch finds
them through the stubs, which name it as a library they need."""
import pathlib
import re
import subprocess
import sys

# Libraries of torch that a process may load, and by which prefix a symbol without a version belongs to which library.
SCANNED = ["libtorch_cuda.so", "libtorch_cuda_linalg.so", "libtorch_nvshmem.so", "libcaffe2_nvrtc.so", "libc10_cuda.so"]
PREFIXES = [("cusparseLt", "libcusparseLt.so.0"), ("cusolver", "libcusolver.so.12"), ("curand", "libcurand.so.10"),
            ("nvshmem", "libnvshmem_host.so.3"), ("nccl", "libnccl.so.2"), ("pncclDummy", "libnccl.so.2"),
            ("cuFile", "libcufile.so.0"), ("cufft", "libcufft.so.12"), ("nvrtc", "libnvrtc.so.13"),
            ("cu", "libcuda.so.1")]
OURS = "libcudart.so.13"


def defined(library):
    out = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].partition("@")[0] for line in out.splitlines()}


def undefined(library):
    """(symbol, version) of each undefined symbol; version "" = none."""
    out = subprocess.run(["nm", "-D", "--undefined-only", library], check=True, capture_output=True, text=True).stdout
    for line in out.splitlines():
        name, _, version = line.split()[-1].partition("@")
        yield name, version.lstrip("@")


def needed(library):
    out = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", out)


def home(name, version, libraries):
    if version in libraries:
        return version
    return next((library for prefix, library in PREFIXES if name.startswith(prefix)), None)


def source(names):
    lines = ["#include <stdio.h>", "#include <stdlib.h>"]
    for name in names:
        text = f"stand-in: {name} is called, a library of NVIDIA that has no stand-in"
        lines.append(f'void {name}(void) {{ fputs("{text}\\n", stderr); abort(); }}')
    return "\n".join(lines) + "\n"


def build(library, names, runtime, folder, compiler):
    code, script = folder / f"{library}.c", folder / f"{library}.map"
    code.write_text(source(sorted(names)))
    script.write_text("".join(f"{version} {{ global: {'; '.join(sorted(of))}; }};\n"
                              for version, of in by_version(names).items() if version))
    flags = ["-fno-builtin", "-w", "-shared", "-fPIC", "-O0", f"-Wl,-soname,{library}"]
    if any(names.values()):
        flags.append(f"-Wl,--version-script={script}")
    subprocess.run([compiler, *flags, "-x", "c", str(code), "-x", "none", "-Wl,--no-as-needed", str(runtime), "-o", str(folder / library)],
                   check=True)


def by_version(names):
    versions = {}
    for name, version in names.items():
        versions.setdefault(version, []).append(name)
    return versions


def main():
    torch, runtime, folder, compiler = (*map(pathlib.Path, sys.argv[1:4]), sys.argv[4])
    folder.mkdir(parents=True, exist_ok=True)
    present = {p.name for p in torch.iterdir()} | {OURS}
    own = defined(runtime)
    libraries = {}
    for scanned in SCANNED:
        for library in needed(torch / scanned):
            if re.match(r"lib(cu|nv|nccl)", library) and library not in present:
                libraries.setdefault(library, {})
    for scanned in SCANNED:
        for name, version in undefined(torch / scanned):
            library = home(name, version, libraries)
            if library in libraries and name not in own:
                libraries[library][name] = version
    for library, names in libraries.items():
        build(library, names, runtime, folder, compiler)
    print(f"{len(libraries)} stubs, {sum(map(len, libraries.values()))} symbols")


main()
