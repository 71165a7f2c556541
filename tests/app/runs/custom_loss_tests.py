#!/usr/bin/env python3
"""A loss in Python (trainer.objective: custom): custom_loss_tests.py BINARY SOURCE_DIR CASE.

Cases: custom_loss (runs with the example losses, resumed with another loss, on two ranks; an interpreter that cannot trace), trace
(what a user gets wrong in the function; the examples' graphs in tests/trainer/custom_loss). Traces need an interpreter with torch:
INGOT_TORCH_PYTHON, build/peers-torch/bin/python (`make test-torch`), or python3. Without one, `custom_loss` uses a program that answers
with the stored graphs, and `trace` is skipped.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from ingot_runs import check, main, write_asking_config

GRAPHS = "tests/trainer/custom_loss"
# Answers as trace_loss.py does, for the examples alone: PROGRAM -c TEXT FILE.py NAME OPERATIONS.
STAND_IN = """#!/usr/bin/python3
import json, pathlib, sys
graph = json.loads(pathlib.Path({graphs!r}, pathlib.Path(sys.argv[3]).stem + ".json").read_text())
print(json.dumps({{"graph": graph}}))
"""


def torch_python(ingot):
    """An interpreter that can import torch; None = there is none."""
    for python in (os.environ.get("INGOT_TORCH_PYTHON"), f"{ingot.source}/build/peers-torch/bin/python", shutil.which("python3")):
        if python and pathlib.Path(python).exists() and not subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode:
            return python
    return None


def stand_in(ingot):
    path = pathlib.Path(ingot.folder, "stand_in")
    path.write_text(STAND_IN.format(graphs=f"{pathlib.Path(ingot.source).resolve()}/{GRAPHS}"))
    path.chmod(0o755)
    return str(path)


def custom(python, function, scope="call", **more):
    return {"python": python, "trainer.objective": "custom", "trainer.custom.function": function, "trainer.custom.scope": scope, **more}


def without_lines(graph):
    return {**graph, "nodes": [{key: value for key, value in node.items() if key != "line"} for node in graph["nodes"]]}


def errors_of(ingot, settings, code=2):
    """What `ingot config check` says, which is what `ingot train` says, before it makes a folder."""
    checked = ingot.ask(["config", "check"], settings, timeout=200)
    began = ingot.ask("train", {**settings, "run.name": "refused"}, timeout=200)
    check(checked.returncode == began.returncode == code, f"{checked} {began}")
    check(checked.stderr == began.stderr, f"the check says {checked.stderr}, and the start {began.stderr}")
    check(not pathlib.Path(ingot.folder, "refused").exists(), "a refused run has a folder")
    return checked.stderr


def check_equal_losses(ingot, python):
    """On a run's stored batches, the loss of an example makes the steps of the objective that it equals."""
    folder = pathlib.Path(ingot.folder)
    first = {"run.name": "first", "scheduler.total_steps": 3, "scheduler.max_staleness": 0, "trainer.checkpoint_every": 1}
    code, output = ingot.run("train", first, timeout=240)
    check(code == 0, output)
    loss = custom(python, "examples/losses/cispo.py:loss")
    code, output = ingot.run(["retrain", folder / "first"], {**first, **loss, "run.name": "again"}, timeout=240)
    check(code == 0, output)
    one, other = (ingot.metrics(name) for name in ("first", "again"))
    for row, (left, right) in enumerate(zip(one, other, strict=True)):
        for name in ("actor/loss", "actor/grad_norm"):  # fp32 weights: the rounding of one step is in the next
            check(abs(left[name] - right[name]) <= 1e-4 * max(1, abs(left[name])), f"step {row}, {name}: {left[name]} and {right[name]}")
    check(max(row["actor/grad_norm"] for row in one) > 1e-3, f"nothing was learned: {one}")
    check(all("actor/custom/ratio" in row for row in other) and not any("actor/custom/ratio" in row for row in one), f"{other}")


def check_resumed(ingot, python):
    """A changed loss is named when a run resumes, and must be traceable then."""
    folder = pathlib.Path(ingot.folder)
    copy = folder / "cispo.py"
    copy.write_text(pathlib.Path(ingot.source, "examples/losses/cispo.py").read_text())
    settings = {"run.name": "changed", "trainer.checkpoint_every": 1, **custom(python, f"{copy}:loss")}
    code, output = ingot.run("train", {**settings, "scheduler.total_steps": 1}, timeout=240)
    check(code == 0, output)
    kept = json.loads((folder / "changed/custom_loss.json").read_text())
    stored = json.loads(pathlib.Path(ingot.source, GRAPHS, "cispo.json").read_text())
    check(without_lines(kept) == without_lines(stored), f"{kept}")
    code, output = ingot.run("train", {**settings, "scheduler.total_steps": 2}, ["--resume"], timeout=240)
    check(code == 0 and "the loss of trainer.custom.function" not in output, output)
    copy = folder / "ppo_clip.py"
    copy.write_text(pathlib.Path(ingot.source, "examples/losses/ppo_clip.py").read_text())
    settings = {**settings, "trainer.custom.function": f"{copy}:loss", "scheduler.total_steps": 3}
    code, output = ingot.run("train", {**settings, "python": "no-such-python"}, ["--resume"])
    check(code == 2 and "cannot run 'no-such-python'" in output, output)
    code, output = ingot.run("train", settings, ["--resume"], timeout=240)
    check(code == 0 and f"the loss of trainer.custom.function ({copy}:loss)" in output, output)
    kept = json.loads((folder / "changed/custom_loss.json").read_text())
    check("aten::minimum" in json.dumps(kept), f"{kept}")


def case_custom_loss(ingot):
    """Runs with a loss in Python, on one process and on two ranks, and interpreters that cannot trace it."""
    python = torch_python(ingot) or stand_in(ingot)
    print(f"interpreter: {python}")
    write_asking_config(ingot, agent_seconds=0)
    check_equal_losses(ingot, python)
    check_resumed(ingot, python)
    gspo = custom(python, "examples/losses/gspo.py:loss", "batch", **{"trainer.loss_aggregation": "sequence", "run.name": "ranks"})
    code, output = ingot.run("launch", {**gspo, "cluster.trainer_ranks": 2, "scheduler.total_steps": 2}, timeout=300)
    check(code == 0, output)
    check(ingot.metrics("ranks")[0]["actor/custom/ratio"] > 0, "no metric of the loss on two ranks")
    code, output = ingot.run("launch", {**gspo, "run.name": "plan", "python": "no-such-python"}, ["--dry-run"])
    check(code == 0, f"a plan needs no interpreter: {output}")

    folder = pathlib.Path(ingot.folder)
    bare = folder / "bare"  # an interpreter without site-packages
    bare.write_text(f"#!/bin/sh\nexec {sys.executable} -I -S \"$@\"\n")
    bare.chmod(0o755)
    silent = folder / "silent"
    silent.write_text("#!/bin/sh\necho no trace here >&2\nexit 3\n")
    silent.chmod(0o755)
    loss = "examples/losses/cispo.py:loss"
    for settings, *parts in (
            (custom("no-such-python", loss), "trainer.custom.function examples/losses/cispo.py:loss: cannot run 'no-such-python'"),
            (custom(bare, loss), "cannot import torch", "set an interpreter that has it with the key `python`"),
            (custom(silent, loss), "exited with 3 without a trace of the loss: no trace here")):
        said = errors_of(ingot, settings)
        check(all(words in said for words in parts), f"{parts} are missing in: {said}")
    # Errors of the options, which every command finds in the same way.
    for settings, words in (
            (custom(python, "losses.py"), "custom.function is 'losses.py': write FILE.py:NAME"),
            ({"trainer.objective": "custom"}, "custom.function is ''"),
            ({"trainer.custom.function": loss}, "set objective to custom, or remove custom.function"),
            ({"trainer.custom.scope": "batch"}, "custom.scope needs objective custom")):
        checked = ingot.ask(["config", "check"], settings, timeout=200)
        check(checked.returncode == 2 and words in checked.stderr, f"'{words}' is missing in: {checked}")


# (source of a loss, words in the error); each on the line of its own operation
FAULTS = {
    "missing": (None, "missing.py is not a file"),
    "nameless": ("def other(logprobs): return -logprobs\n", "has no function loss"),
    "syntax": ("def loss(logprobs):\n    return -\n", "SyntaxError"),
    "raises": ("def loss(logprobs):\n    raise ValueError('boom')\n", "ValueError: boom"),
    "argument": ("def loss(logprobs, returns):\n    return -logprobs\n", "it takes an argument returns, which does not exist; available: logprobs, "),
    "none": ("def loss(logprobs):\n    -logprobs\n", "its result is None"),
    "number": ("def loss(logprobs):\n    return 3\n", "its result is of type int"),
    "mean": ("def loss(logprobs):\n    return -logprobs.mean()\n", "has the shape [] for T = 11 tokens"),
    "integers": ("def loss(segments):\n    return segments\n", "torch.int64"),
    "constant": ("import torch\ndef loss(logprobs):\n    return torch.zeros_like(logprobs)\n", "does not depend on logprobs"),
    "nan": ("def loss(logprobs):\n    return logprobs.log()\n", "the loss is nan"),
    "branch": ("def loss(logprobs, advantages):\n    x = 1\n    if advantages.mean() > 0:\n        return -logprobs\n    return logprobs\n",
               "branch.py:3: the loss uses a tensor's value"),
    "each": ("def loss(logprobs, advantages):\n    if (advantages > 0).all():\n        return -logprobs\n    return logprobs\n",
             "each.py:2: the loss uses a tensor's value"),
    "several": ("def loss(logprobs, advantages):\n    while advantages > 0:\n        return -logprobs\n", "several.py:2: the loss uses a tensor's value"),
    "item": ("def loss(logprobs):\n    return -logprobs * logprobs.sum().item()\n", "item.py:2: the loss uses a tensor's value"),
    "float": ("def loss(logprobs):\n    return -logprobs * float(logprobs.sum())\n", "float.py:2: the loss uses a tensor's value"),
    "list": ("def loss(logprobs):\n    return -logprobs * sum(logprobs.tolist())\n", "list.py:2: the loss uses a tensor's value"),
    "array": ("def loss(logprobs):\n    return -logprobs * logprobs.numpy()[0]\n", "array.py:2: the loss uses a tensor's value"),
    "equal": ("import torch\ndef loss(logprobs, rollout_logprobs):\n    return -logprobs if torch.equal(logprobs, rollout_logprobs) else logprobs\n",
              "equal.py:3: the loss uses a tensor's value"),
    "sort": ("def loss(logprobs):\n    return -logprobs.sort()[0]\n", "sort.py:2: the operation sort is not allowed in a custom loss"),
    "index": ("def loss(logprobs, advantages):\n    return -logprobs[advantages > 0]\n", "index.py:2: the operation index.Tensor is not allowed in a custom loss: use torch.where"),
    "inplace": ("def loss(logprobs):\n    x = -logprobs\n    x += 1\n    return x\n", "inplace.py:3: the operation add_.Tensor is not allowed in a custom loss: it changes a tensor in place"),
    "set": ("def loss(logprobs, advantages):\n    x = -logprobs\n    x[advantages > 0] = 0\n    return x\n", "set.py:3: the operation index_put_ is not allowed"),
    "helper": ("def inner(x):\n    return x.sort()[0]\n\ndef loss(logprobs):\n    return -inner(logprobs)\n", "helper.py:2: the operation sort"),
    "random": ("import torch\ndef loss(logprobs):\n    return -logprobs * torch.rand_like(logprobs)\n", "random.py:3: the operation rand_like is not allowed in a custom loss: a loss must not be random"),
    "dice": ("import torch\ndef loss(logprobs):\n    return -logprobs * torch.rand(())\n", "dice.py:3: two traces of the loss differ"),
    "length": ("def loss(logprobs):\n    return -logprobs / len(logprobs)\n", "length.py:2: two traces of the loss differ"),
    "loop": ("def loss(logprobs):\n    x = logprobs\n    for i in range(x.shape[0]):\n        x = x * 2\n    return x\n", "loop.py:4: two traces of the loss differ"),
    "single": ("def loss(logprobs):\n    return -logprobs / logprobs.std() if logprobs.numel() > 1 else -logprobs\n", "single.py:2: two traces of the loss differ"),
    "long": ("def loss(logprobs):\n    return -logprobs if len(logprobs) < 1000 else -logprobs * 2\n", "long.py:2: two traces of the loss differ"),
    "data": ("def loss(logprobs):\n    x = logprobs.clone()\n    x.data = logprobs * 3\n    return -x\n", "data.py:3: the loss assigns to a tensor's data"),
    "asks": ("def loss(logprobs):\n    return -logprobs if logprobs.requires_grad else logprobs\n", "asks.py:2: the loss asks whether a tensor has a gradient"),
    "chatty": ("def loss(logprobs):\n    while True:\n        print('x' * 65536)\n", "File too large"),
    "endless": ("def loss(logprobs):\n    x = logprobs\n    while True:\n        x = x * 2\n", "endless.py:4: the loss has more than 10000 operations"),
    "vector": ("import torch\nTABLE = torch.tensor([1.0, 2.0])\ndef loss(logprobs):\n    return -logprobs * TABLE.sum() * (TABLE * logprobs.mean()).sum()\n",
               "vector.py:4: the loss uses a constant tensor of shape [2]"),
    "ones": ("import torch\ndef loss(logprobs):\n    return -logprobs * torch.ones(11)\n", "ones.py:3: the loss uses a constant tensor of shape [11]"),
    "half": ("def loss(logprobs):\n    return -logprobs.half()\n", "half.py:2: the loss uses the type float16"),
    "function": ("import torch\nclass Own(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x): return x * 2\n    @staticmethod\n"
                 "    def backward(ctx, g): return g\ndef loss(logprobs):\n    return -Own.apply(logprobs)\n", "function.py:8: the loss computes gradients itself"),
    "grad": ("import torch\ndef loss(logprobs):\n    return -torch.autograd.grad(logprobs.sum(), logprobs)[0]\n", "grad.py:3: the loss computes gradients itself"),
    "metric": ("def loss(logprobs):\n    return -logprobs, {'a b': logprobs}\n", "the metric 'a b' must have a name of"),
    "metrics": ("def loss(logprobs):\n    return -logprobs, [logprobs]\n", "the second result must be a dictionary"),
    "swallowed": ("def loss(logprobs):\n    try:\n        return -logprobs.sort()[0]\n    except Exception:\n        return -logprobs\n", "swallowed.py:3: the operation sort"),
    "exits": ("import os\nos._exit(4)\n", "exited with 4 without a trace"),
    "leaves": ("import sys\nsys.exit('bye')\n", "SystemExit: bye"),
    "imports": ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'"),
}

# Losses that are unusual but valid.
VALID = {
    "prints": "def loss(logprobs):\n    print('here', logprobs)\n    return -logprobs\n",
    "no_grad": "import torch\ndef loss(logprobs, advantages):\n    with torch.no_grad():\n        ratio = (logprobs * 2).exp()\n    return -ratio * logprobs * advantages\n",
    "operations": """import torch
import torch.nn.functional as F
EPS = torch.tensor(0.2)
def loss(logprobs, rollout_logprobs, advantages, mask, segments, episodes):
    from ingot_loss import segment_mean, segment_sum
    x = logprobs - rollout_logprobs
    y = torch.where((x.exp() > 1 + EPS) & mask, x.clamp(max=0.1), x.clip(-1, 1)) + F.softplus(x) - F.logsigmoid(x) + x ** 2 + 2 ** x
    z = (advantages - advantages.mean()) / (advantages.std(unbiased=False) + 1e-8) * mask.float()
    w = segment_mean(x, segments) + segment_sum(x.square(), episodes) + x.softmax(0) + x.cumsum(0).flip(0) + torch.logsumexp(x, 0)
    u = x.masked_fill(x.isnan(), 0.0).nan_to_num() + torch.max(x, -x) + torch.min(x) + (x.abs() + 1).sqrt().tanh() + F.relu(x) + 1 / (1 + x.exp())
    return -(y * z + 0.1 * w + u + (advantages >= 0).double() * x.clamp(max=float('inf'))), {'x': x, 'mean': x.mean(), 'two': torch.tensor(2.0)}
""",
    "module_numbers": "SCALE = 0.5\ndef loss(logprobs, advantages, *, scale=SCALE, **rest):\n    return -scale * logprobs * advantages if scale > 0 else logprobs\n",
    "compiled": "import torch\n@torch.compile\ndef loss(logprobs, advantages):\n    return -logprobs * advantages\n",
    "split": "from other_losses import base\ndef loss(logprobs, advantages):\n    return base(logprobs, advantages)\n",
}


def case_trace(ingot):
    """Functions that cannot be traced are named with their line; the stored graphs are those of the examples."""
    python = torch_python(ingot)
    if python is None:
        print("no interpreter with torch: INGOT_TORCH_PYTHON=PATH names one")
        sys.exit(77)
    write_asking_config(ingot, agent_seconds=0)
    folder = pathlib.Path(ingot.folder, "losses")
    folder.mkdir()
    (folder / "other_losses.py").write_text("def base(logprobs, advantages):\n    return -logprobs * advantages\n")
    words = [python, f"{ingot.source}/src/app/run/trace_loss.py"]
    operations = json.dumps(re.findall(r'"(aten::[\w.]+)"', pathlib.Path(ingot.source, "src/trainer/custom_loss/operations.cc").read_text()))
    faults = []
    for name, (source, expected) in FAULTS.items():
        path = folder / f"{name}.py"
        if source is not None:
            path.write_text(source)
        if name in ("constant", "nan", "exits", "branch", "chatty"):  # through the binary, which bounds what is printed
            said = errors_of(ingot, custom(python, f"{path}:loss"))
            said = said.replace("error: ", "", 1)
        else:
            done = subprocess.run([*words, path, "loss", operations], capture_output=True, text=True, check=True, timeout=100)
            said = json.loads(done.stdout).get("error", f"accepted: {done.stdout[:300]}")
        if expected not in said or len(said) > 2500:
            faults.append(f"{name}: {said}")
    for name, source in VALID.items():
        path = folder / f"{name}.py"
        path.write_text(source)
        for scope in ("call", "batch"):
            done = ingot.ask(["config", "check"], custom(python, f"{path}:loss", scope), timeout=200)
            if done.returncode != 0:
                faults.append(f"{name}: {done.stderr}")
            if name != "operations":
                break
    detached = json.loads(subprocess.run([*words, folder / "no_grad.py", "loss", operations], capture_output=True, text=True, check=True).stdout)
    if [node["op"] for node in detached["graph"]["nodes"]].count("aten::detach") != 2:
        faults.append(f"torch.no_grad: {detached}")
    for example in sorted(pathlib.Path(ingot.source, "examples/losses").glob("*.py")):
        stored = json.loads(pathlib.Path(ingot.source, GRAPHS, f"{example.stem}.json").read_text())
        done = subprocess.run([*words, example, "loss", operations], capture_output=True, text=True, check=True)
        if json.loads(done.stdout) != {"graph": stored}:
            faults.append(f"{example.stem}: {GRAPHS}/{example.stem}.json is not its trace: run make_graphs.py there")
    check(not faults, "\n".join(faults))
    print(f"{len(FAULTS)} faults named, {len(VALID)} losses and the examples traced")


if __name__ == "__main__":
    main(case_custom_loss, case_trace)
