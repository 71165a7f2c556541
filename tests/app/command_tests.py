#!/usr/bin/env python3
"""What people type, as they type it: command_tests.py BINARY SOURCE_DIR [CASE ...].

schema      `ingot config schema` as an editor uses it: a valid JSON Schema that every configuration of the repository meets, and a wrong one does not
init        `ingot init` makes a folder that trains, and every command that its texts name works there
texts       the commands, options and make targets that AGENTS.md and the documents name exist
cluster     the YAML of docs/cluster.md and configs/multi-node.yaml passes `ingot config check`, and can be launched as it says
progress    a command of seconds shows its progress on a terminal, and nowhere else
"""
import copy
import json
import os
import pathlib
import pty
import re
import select
import shlex
import subprocess
import sys
import tempfile
import time

try:
    import jsonschema
    import yaml
except ImportError as missing:
    jsonschema, yaml = None, missing


def yaml12():
    """A loader that reads YAML as editors do: 1e-3 is a number, and `on` a word."""
    class Yaml12(yaml.SafeLoader):
        pass

    Yaml12.yaml_implicit_resolvers = {first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
                                      for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()}
    Yaml12.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|false)$"), list("tf"))
    Yaml12.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789"))
    return Yaml12


# Places in a configuration, and what must not stand there.
WRONG = [(("no_such_section",), {}), (("trainer", "learning_rat"), 0.1), (("trainer", "learning_rate"), "quick"), (("trainer",), 3),
         (("scheduler", "total_steps"), 1.5), (("scheduler", "total_steps"), "many"), (("numerics",), "approximate"), (("eval", "tasks"), []),
         (("http", "dashboard"), "maybe"), (("agents", "recipes"), {}), (("agents", "recipes", 0, "comand"), []),
         (("agents", "recipes", 0, "command"), "python3 agent.py"), (("agents", "recipes", 0, "timeout_s"), "soon")]


def put(config, place, value):
    changed = copy.deepcopy(config)
    at = changed
    for key, following in zip(place, place[1:]):
        if isinstance(at, dict):
            at = at.setdefault(key, [{}] if isinstance(following, int) else {})
        else:
            at = at[key]
    at[place[-1]] = value
    return changed


def run(argv, folder=None, accepted=(0,), **more):
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=200, stdin=subprocess.DEVNULL, **more)
    if done.returncode not in accepted:
        raise SystemExit(f"FAILED: {argv}: exit code {done.returncode}: {done.stdout[-1500:]} {done.stderr[-1500:]}")
    return done.stdout


def case_schema(binary, source, _):
    if jsonschema is None:
        return f"left out: {yaml}"
    schema = json.loads(run([binary, "config", "schema"]))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator, loader = jsonschema.Draft202012Validator(schema), yaml12()
    faults, configs = [], [*source.glob("configs/**/*.yaml"), *source.glob("examples/**/run*.yaml"), source / "src/app/templates/run.yaml"]
    for path in configs:
        config = yaml.load(path.read_text(encoding="utf-8").replace("@NAME@", "name"), loader)
        faults += [f"{path}: {'.'.join(map(str, error.absolute_path))}: {error.message[:200]}" for error in validator.iter_errors(config)]
    smoke = yaml.load((source / "configs/smoke.yaml").read_text(encoding="utf-8"), loader)
    faults += [f"{'.'.join(map(str, place))}: {value!r} is accepted" for place, value in WRONG if validator.is_valid(put(smoke, place, value))]
    if faults or len(configs) < 10:
        raise SystemExit("\n".join(["FAILED:", *faults]))
    return f"{len(configs)} configurations meet the schema; {len(WRONG)} wrong ones do not"


def commands_in(text):
    """The commands that a text names: between backticks, and on indented lines."""
    return re.findall(r"`(ingot [^`]+)`", text) + re.findall(r"^    (ingot .+?)(?:\s+#.*)?$", text, re.M)


# Places of the texts, and what a reader would write there.
FILLED = {"RUN": "runs/trial", "runs/A": "runs/it-s-a-run", "runs/B": "runs/trial", "GROUP/SAMPLE": "0/0", "KEY": "trainer.learning_rate",
          "FILE": "run.yaml", "rewards.terms=[...]": "rewards.terms=[{kind: outcome}]"}
TINY = ["sft.max_steps=3", "scheduler.groups_per_step=2", "scheduler.group_size=2"]


def case_init(binary, _, folder):
    pathlib.Path(folder, "bin").mkdir()
    pathlib.Path(folder, "bin", "ingot").symlink_to(binary)
    env = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}
    said = run([binary, "init", "it's a run"], folder)
    hint = said.strip().split(": ", 1)[1]
    if not hint.endswith(f" && {shlex.quote(binary)} train run.yaml"):
        raise SystemExit(f"FAILED: init says {said}")
    run(["sh", "-c", f"{hint} {' '.join(TINY)} scheduler.total_steps=1"], folder, env=env)
    place = pathlib.Path(folder, "it's a run")
    rows = [json.loads(line) for line in (place / "runs/it-s-a-run/metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    if sum("actor/loss" in row for row in rows) != 1 or not any("eval/reward_mean" in row for row in rows):
        raise SystemExit(f"FAILED: the folder's run has {len(rows)} rows")
    texts = "\n".join(path.read_text(encoding="utf-8") for path in sorted(place.rglob("*.md"), key=lambda one: "train.md" not in one.name))
    commands = list(dict.fromkeys(commands_in(texts)))
    for command in commands:
        words = [FILLED.get(word, word) for word in shlex.split(command)]
        if words[1] == "view":
            with subprocess.Popen([binary, *words[1:]], cwd=place, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL) as served:
                link = served.stdout.readline()
                served.kill()
            if not link.startswith("http://"):
                raise SystemExit(f"FAILED: {command} prints {link}")
            continue
        tiny = [*TINY, *([] if "scheduler.total_steps" in command else ["scheduler.total_steps=1"])] if words[1] == "train" else []
        run([binary, *words[1:], *tiny], place, (0, 1) if words[1] == "doctor" else (0,))
    return f"{len(commands)} commands of the folder's texts work in it"


def case_texts(binary, source, _):
    groups = {"": set(run([binary, "completion", "words", ""]).split())}
    for name in groups[""]:
        groups[name] = set(run([binary, "completion", "words", name, ""]).split())
    texts = [source / "AGENTS.md", source / "README.md", *source.glob("docs/*.md")]
    targets = set(re.findall(r"^([a-z-]+):", (source / "Makefile").read_text(encoding="utf-8"), re.M))
    helps, faults, count = {}, [], 0
    for path in texts:
        text = path.read_text(encoding="utf-8")
        faults += [f"{path.name}: make {target}" for target in re.findall(r"`make ([a-z-]+)", text) if target not in targets]
        for command in commands_in(text):
            words = command.split()[1:]
            if not re.fullmatch("[a-z-]+", words[0]) or words[0].startswith("-"):
                continue
            count += 1
            if words[0] not in groups[""]:
                faults.append(f"{path.name}: {command}: no such command")
                continue
            names, group = [words[0]], groups[words[0]]
            grouped = group and all(re.fullmatch("[a-z-]+", one) for one in group) and not any(one.startswith("-") for one in group)
            if grouped and len(words) > 1:
                names += words[1].split("|")[:1]
                faults += [f"{path.name}: {command}: no such command" for one in words[1].split("|") if one not in group]
            key = tuple(names)
            helps[key] = helps.get(key) or run([binary, *names, "--help"])
            faults += [f"{path.name}: {command}: no option {option}" for option in re.findall(r"(?<!\S)(--[a-z-]+)", command) if not re.search(option + "(?![a-z-])", helps[key])]
    if faults or count < 50:
        raise SystemExit("\n".join([f"FAILED: {count} commands", *faults]))
    return f"{count} commands of {len(texts)} texts exist"


def merged(config, part):
    """A configuration with the keys of a part of one."""
    if not (isinstance(config, dict) and isinstance(part, dict)):
        return part
    return {**config, **{key: merged(config.get(key), value) for key, value in part.items()}}


def refused(argv, folder, *words):
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    if done.returncode != 2 or not all(word in done.stderr for word in words):
        raise SystemExit(f"FAILED: {argv}: {done.returncode}, and {words} are not in: {done.stderr[-1500:]}")


def case_cluster(binary, source, folder):
    if yaml is None or jsonschema is None:
        return f"left out: {yaml or jsonschema}"
    page, loader = (source / "docs/cluster.md").read_text(encoding="utf-8"), yaml12()
    smoke = yaml.load((source / "configs/smoke.yaml").read_text(encoding="utf-8"), loader)
    parts = [yaml.load(part, loader) for part in re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S)]
    launched = 0
    for index, part in enumerate(parts):
        path = pathlib.Path(folder, f"part-{index}.yaml")
        path.write_text(json.dumps(merged(smoke, part)), encoding="utf-8")
        run([binary, "config", "check", path], source)
        nodes = "groups" in part["cluster"] and "launcher" not in part["cluster"]
        plan = run([binary, "launch", path, "--dry-run", *(["--set", "cluster.launcher=slurm"] if nodes else [])], source)
        launched += "--group" in plan or "\nkind: " in plan
    if len(parts) < 3 or launched < 2:
        raise SystemExit(f"FAILED: {len(parts)} parts of configurations, of which {launched} are of several nodes")

    nodes = "configs/multi-node.yaml"
    groups = yaml.load((source / nodes).read_text(encoding="utf-8"), loader)["cluster"]["groups"]
    started = re.findall(rf"^ingot node {nodes} --group (\w+)(?: --node (\d+))?", page, re.M)
    wanted = [(group["name"], node) for group in groups for node in range(group.get("nodes", 1))]
    if sorted((name, int(node or 0)) for name, node in started) != sorted(wanted):
        raise SystemExit(f"FAILED: docs/cluster.md starts {started}, and {nodes} has {wanted}")
    run([binary, "config", "check", nodes], source)
    run([binary, "launch", nodes, "--dry-run", "--set", "cluster.launcher=slurm"], source)
    run([binary, "launch", nodes, "--dry-run", "--set", "cluster.groups=[]"], source)
    refused([binary, "launch", nodes, "--dry-run"], source, "names 3 nodes", "ingot node")
    for wrong, words in (("cluster.token_file=", "cluster.token_file"), ("cluster.rollout_engines=3", "room for 2 of role rollout")):
        refused([binary, "config", "check", nodes, wrong], source, words)
        refused([binary, "launch", nodes, "--dry-run", "--set", "cluster.launcher=slurm", "--set", wrong], source, words)
    return f"{len(parts)} parts of configurations of docs/cluster.md, and {nodes}, are checked and planned"


def case_progress(binary, _, __):
    argv = [binary, "simulate", "--order", "windowed", "--workers", "10000", "--steps", "39000", "--groups-per-step", "64"]  # of many seconds
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(argv[0], argv)
    seen, deadline = "", time.monotonic() + 60
    while "simulate: windowed  " not in seen and time.monotonic() < deadline:
        if select.select([terminal], [], [], 1)[0]:
            try:
                seen += os.read(terminal, 65536).decode(errors="replace")
            except OSError:  # it has ended
                break
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    os.close(terminal)
    if "\r\x1b[Ksimulate: windowed  " not in seen:
        raise SystemExit(f"FAILED: a terminal shows {seen!r}")
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as silent:
        time.sleep(3.5)
        silent.kill()
        said = silent.stderr.read()
    if said:
        raise SystemExit(f"FAILED: a pipe gets {said!r}")
    return "the progress is on the terminal alone"


CASES = {"schema": case_schema, "init": case_init, "texts": case_texts, "cluster": case_cluster, "progress": case_progress}


def main():
    binary, source = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2]).resolve()
    for name in sys.argv[3:] or CASES:
        with tempfile.TemporaryDirectory(prefix="ingot-commands-") as folder:
            print(f"{name}: {CASES[name](binary, source, folder)}", flush=True)


if __name__ == "__main__":
    main()
