"""Runs the Ingot binary with this environment's torch."""
import importlib.metadata
import importlib.util
import os
import pathlib
import sys

TORCH = "@TORCH@"  # the major.minor version that the binary was built with
HERE = pathlib.Path(__file__).resolve().parent


def torch_folder():
    """Returns the folder with torch's libraries. Exits with instructions if no suitable torch is installed."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"ingot: this environment has no torch: {sys.executable} -m pip install 'torch=={TORCH}.*'")
    version = importlib.metadata.version("torch")
    if version.split("+")[0].rsplit(".", 1)[0] != TORCH:
        sys.exit(f"ingot: this environment has torch {version}, and this wheel needs {TORCH}: "
                 f"install it in an environment of its own (vLLM and others need other versions of torch)")
    return pathlib.Path(list(spec.submodule_search_locations)[0]) / "lib"


def main():
    libraries = torch_folder()
    env = dict(os.environ)
    env.setdefault("INGOT_PYTHON", sys.executable)  # runs the reward functions
    if libraries != HERE.parent / "torch" / "lib":  # where the binary looks by default
        nvidia = libraries.parent.parent / "nvidia" / "cu13" / "lib"
        env["LD_LIBRARY_PATH"] = ":".join(filter(None, [str(libraries), str(nvidia), env.get("LD_LIBRARY_PATH", "")]))
    binary = str(HERE / "bin" / "ingot")
    os.execve(binary, [sys.argv[0], *sys.argv[1:]], env)


if __name__ == "__main__":
    main()
