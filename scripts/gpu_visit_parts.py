"""Runs one part of a visit to a machine with a GPU: gpu_visit_parts.py PART FOLDER OUT STANDIN.

A part prints a JSON line per result, followed by a verdict: {"verdict": "ok" | "failed" | "skipped", "why": ...}. A
part whose results are valid even if it is interrupted prints {"verdict": "partial"} first. All other output is its
log."""
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys

FACTS = ("name", "compute_cap", "driver_version", "memory.total", "memory.used", "clocks.sm", "clocks.mem", "clocks.max.sm",
         "power.limit", "temperature.gpu", "compute_mode", "ecc.mode.current", "pcie.link.gen.current")
LEAST_CAPABILITY = 8.0
# Qwen3-0.6B's shape with random weights and bytes for tokens.
SHAPE_06B = {"model.hidden_size": 1024, "model.intermediate_size": 3072, "model.layers": 28, "model.heads": 16,
             "model.kv_heads": 8, "model.head_dim": 128, "trainer.dtype": "bf16"}
ONE_STEP = {"sft.max_steps": 2, "scheduler.total_steps": 1, "goal.last_steps": 0, "goal.first_steps": 0}
# For the stand-in, whose kernels are interpreted.
TINY = {"model.hidden_size": 32, "model.intermediate_size": 64, "model.layers": 1, "model.heads": 2, "model.kv_heads": 1,
        "model.head_dim": 16, "sft.batch_size": 2, "scheduler.groups_per_step": 2, "scheduler.group_size": 3,
        "rollout.max_running": 8, "rollout.kv_cache_tokens": 4096, "gateway.max_new_tokens": 12, "agents.concurrency": 4,
        "trainer.micro_batch_tokens": 256, "eval.tasks": ""}


def emit(row):
    print(json.dumps(row), flush=True)


def verdict(word, why=""):
    emit({"verdict": word, **({"why": why} if why else {})})


def torch_folder():
    if named := os.environ.get("INGOT_TORCH_DIR"):
        return pathlib.Path(named)
    found = importlib.util.find_spec("torch")
    return pathlib.Path(list(found.submodule_search_locations)[0]) if found else None


class Installation:
    """The programs in an unpacked bundle (bin/, lib/) or in a build folder, and the environment that they need."""

    def __init__(self, folder, standin):
        self.folder, self.standin = pathlib.Path(folder), standin
        self.small = ["--small"] if standin else []
        unpacked = (self.folder / "bin").is_dir()
        self.ingot = self.folder / ("bin/ingot" if unpacked else "ingot")
        self.gpu_check, self.gpu_primitives = (self.folder / ("bin" if unpacked else "tests/kernels") / name for name in ("gpu_check", "gpu_primitives"))
        self.library = self.folder / ("lib" if unpacked else ".") / "libingot_cuda.so"
        if standin and not self.library.exists():
            self.library = self.folder / "tests/standin/kernels/libingot_cuda.so"  # of a build for tests alone
        self.source = self.folder if unpacked else pathlib.Path(__file__).resolve().parents[1]

    def environment(self):
        torch, paths = torch_folder(), [self.folder / "lib"]
        if torch is not None:
            paths += [torch / "lib", *sorted(torch.parent.glob("nvidia/*/lib"))]
        if earlier := os.environ.get("LD_LIBRARY_PATH"):
            paths.append(earlier)
        return {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, paths)), "INGOT_CUDA_LIBRARY": str(self.library)}

    def command(self, program, *arguments):
        run = [str(program), *map(str, arguments)]
        if self.standin:
            run = [sys.executable, str(self.source / "tests/standin/standin.py"), self.standin, *run]
        return run

    def stream(self, *command):
        """Runs a command and passes on its output as it comes. Returns its exit code."""
        sys.stdout.flush()
        return subprocess.run(command, env=self.environment(), cwd=self.source, check=False).returncode


def device(here, _):
    torch = torch_folder()
    version = torch / "version.py" if torch else None
    emit({"python": sys.version.split()[0], "torch": str(torch), "machine": os.uname().release, "cores": os.cpu_count(),
          "torch_version": version.read_text().split("__version__ = ")[-1].split("\n")[0] if version and version.exists() else ""})
    missing = [str(path) for path in (here.ingot, here.gpu_check, here.gpu_primitives, here.library) if not path.exists()]
    if missing:
        return verdict("failed", f"the archive lacks {', '.join(missing)}: create it with `make cuda bundle`")
    doctor = subprocess.run(here.command(here.ingot, "doctor"), env=here.environment(), cwd=here.source, capture_output=True,
                            text=True, check=False)
    lines = [line.strip() for line in doctor.stdout.splitlines()]
    emit({"doctor": next((line for line in lines if " GPU " in line), "no line about a GPU")})
    if here.standin:
        return verdict("ok")
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return verdict("failed", "no nvidia-smi: this machine has no NVIDIA driver")
    found = subprocess.run([smi, f"--query-gpu={','.join(FACTS)}", "--format=csv,noheader,nounits"], capture_output=True,
                           text=True, check=False)
    if found.returncode != 0 or not found.stdout.strip():
        return verdict("failed", f"nvidia-smi: {(found.stdout + found.stderr).strip()[:200]}")
    cards = [dict(zip(FACTS, map(str.strip, line.split(",")))) for line in found.stdout.strip().splitlines()]
    for i, card in enumerate(cards):
        emit({"gpu": i, **card})
    if float(cards[0]["compute_cap"]) < LEAST_CAPABILITY:
        return verdict("failed", f"{cards[0]['name']} has capability {cards[0]['compute_cap']}; the kernels need 8.0 or newer")
    verdict("ok")


def judge(program, code):
    verdict("ok" if code == 0 else "failed", "" if code == 0 else f"{program} ended with exit code {code}")


def primitives(here, out):
    (out / "dumps").mkdir(exist_ok=True)
    judge("gpu_primitives", here.stream(*here.command(here.gpu_primitives, "--dumps", out / "dumps", *here.small)))


def checks(here, _):
    judge("gpu_check", here.stream(*here.command(here.gpu_check, here.library, "--no-bench", *here.small)))


def sanitizer(here, _):
    tool = shutil.which("compute-sanitizer")
    if here.standin or tool is None:
        return verdict("skipped", "the stand-in checks memory and races itself" if here.standin else "no compute-sanitizer")
    verdict("partial")  # it is too slow for all checks, and the limit cuts it off
    code = here.stream(tool, "--tool", "memcheck", "--error-exitcode", "3", str(here.gpu_check), str(here.library), "--no-bench")
    verdict("ok" if code == 0 else "failed", "" if code == 0 else f"compute-sanitizer or a check failed (exit code {code})")


def figures(here, _):
    judge("gpu_check", here.stream(*here.command(here.gpu_check, here.library, "--no-checks", *here.small)))


def complete_lines(path):
    """Returns the lines of a file that another process writes, without the one that it has not finished."""
    return path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []


def train(here, out, name, settings):
    """Trains configs/smoke.yaml with `settings`, emits each step's row as it comes, and returns the exit code and the last step's row."""
    settings = {"device": "cuda", "run.root": out / "runs", "run.name": name, **settings}
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    sys.stdout.flush()
    process = subprocess.Popen(here.command(here.ingot, "train", "configs/smoke.yaml", *sets), env=here.environment(), cwd=here.source)
    rows, ended = [], False
    while not ended:
        try:
            process.wait(0.5)
            ended = True
        except subprocess.TimeoutExpired:
            pass
        for line in complete_lines(out / "runs" / name / "metrics.jsonl")[len(rows):]:
            rows.append(json.loads(line))
            emit({"step": rows[-1]})
    steps = [row for row in rows if "reward/mean" in row]  # the others are evaluations
    return process.returncode, steps[-1] if steps else {}


def judge_run(code, row):
    if code != 0 or not row:
        return verdict("failed", f"ingot train ended with exit code {code}" + ("" if row else " before its first step"))
    emit({key: value for key, value in row.items() if key.startswith(("mismatch/", "reward/", "perf/"))})
    verdict("ok")


def smoke(here, out):
    judge_run(*train(here, out, "smoke", {**TINY, **ONE_STEP} if here.standin else {}))


def model(here, out):
    judge_run(*train(here, out, "model", {**ONE_STEP, **({**TINY, "model.layers": 2} if here.standin else SHAPE_06B)}))


def main():
    name, folder, out, standin = sys.argv[1:5]
    parts = {f.__name__: f for f in (device, primitives, checks, sanitizer, smoke, figures, model)}
    parts[name](Installation(folder, standin), pathlib.Path(out))


if __name__ == "__main__":
    main()
