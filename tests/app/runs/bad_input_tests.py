#!/usr/bin/env python3
"""What a user gets wrong, and how it is told: bad_input_tests.py BINARY SOURCE_DIR CASE.

Cases: bad_input (one clear error and no run), unstarted (agents that never get to a call), warnings (settings and results that
are rarely meant).
"""
import fcntl
import json
import os
import pathlib
import re
import resource
import socket
import subprocess
import time

from ingot_runs import SHORT, check, errors, launch_settings, main, run_as_nobody, write_asking_config


def check_thread_limits(ingot):
    """Every command that starts many threads says at once that the system gives too few. Root has no such limit."""
    if os.geteuid() != 0:
        return
    ingot.config = "configs/smoke.yaml"
    commands = [ingot.argv(command, {}) for command in
                ("train", "launch", "datapool", "scheduler", "rollout", "gateway", "trainer", "agents")]
    for argv in commands + [[ingot.binary, "serve", "nowhere"]]:
        done = run_as_nobody(argv, cwd=ingot.source,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (20, 20)))
        if done is None:
            return
        check(done.returncode == 1 and "ulimit -u is 20): raise the limit" in done.stderr, f"{argv[1]}: {done}")
        check(len(done.stderr.strip().splitlines()) == 1, f"{argv[1]}: not one line: {done.stderr}")


def expect(ingot, settings, *words, command="train", config="configs/smoke.yaml", codes=(2,)):
    """The command ends with one line, which names the cause."""
    ingot.config = config
    code, output = ingot.run(command, settings, timeout=60)
    check(code in codes, f"exit code {code} for {settings} {config}: {output}")
    check(len(errors(output)) == 1, f"not one line: {output}")
    for word in words:
        check(word in output, f"'{word}' is missing in: {output}")


def check_command_line(ingot):
    for words, named in ((["tain", "run.yaml"], ("'tain'", "'train'")), (["config", "chek"], ("'chek'", "'check'")),
                         (["tain", "--help"], ("'tain'", "'train'")), (["config", "chek", "--help"], ("'chek'", "'check'")),
                         (["train", "--resum", "run.yaml"], ("'--resum'", "'--resume'")),
                         (["serve", "folder", "--prot=1"], ("'--prot'", "'--port'")),
                         (["train", "run.yaml", "-r"], ("'-r'", "'--resume'")),
                         (["launch", "run.yaml", "--ste=a=b"], ("'--ste'", "'--set'")),
                         (["train", "run.yaml", "more"], ("'more' is an unexpected argument", "`ingot train --help`")),
                         (["config"], ("ingot config: ", "subcommand")), (["inspect"], ("ingot inspect: run_dir",)),
                         (["serve", "folder", "--device", "gpu"], ("ingot serve: ", "auto", "cuda")),
                         (["config", "explain", "trainer.lerning_rate"], ("'trainer.learning_rate'",))):
        done = ingot.call(*words)
        check(done.returncode == 2 and all(name in done.stderr for name in named), f"{words}: {done}")
        check(len(done.stderr.strip().splitlines()) == 1, f"not one line: {done.stderr}")
    word = "w" * 70_000
    for words in ([word], ["train", "run.yaml", word], ["train", "run.yaml", "--" + word], ["config", "explain", word],
                  ["serve", "folder", "--port", word], ["config", "check", "configs/smoke.yaml", "--set", word + "=1"]):
        done = ingot.call(*words)
        check(done.returncode == 2 and 0 < len(done.stderr) <= 1_100, f"{words[0][:20]}: {done.stderr[:2_000]}")
    done = ingot.call("--version")
    check(done.returncode == 0 and done.stdout.startswith("ingot "), f"--version: {done}")
    done = ingot.call("config", "check", "configs/smoke.yaml", "run.seed=77", "--set", "run.name=bare", "http.port=1234")
    check(done.returncode == 0 and all(key in done.stdout for key in ("seed: 77", "name: bare", "port: 1234")),
          f"overrides with --set and without: {done}")


def check_values(ingot):
    folder = pathlib.Path(ingot.folder)
    expect(ingot, {"trainer.learning_rat": 1}, "trainer.learning_rat", "nearest", "trainer.learning_rate")
    expect(ingot, {"trainer.learning_rate": "fast"}, "trainer.learning_rate", "number")
    expect(ingot, {"trainer.objective": "grpo"}, "trainer.objective", "cispo", "ppo_clip", "gspo", "opmd", "dpo", "sapo")
    expect(ingot, {"trainer.objective": "gspo"}, "gspo", "loss_aggregation to sequence")
    expect(ingot, {"device": "cuda"}, "device is cuda, but", codes=(1, 2))
    expect(ingot, {}, "nowhere.yaml", config="nowhere.yaml")
    expect(ingot, {}, "it is a folder", config="configs")
    broken = folder / "broken.yaml"
    broken.write_text("run:\n  name: [a\n")
    expect(ingot, {}, "broken.yaml", "malformed YAML", config=str(broken))
    broken.write_text("run:\n  name: a\n  nmae: b\n")
    expect(ingot, {}, "broken.yaml:3", "run.nmae", "run.name", config=str(broken))


def expect_name_free(ingot, settings, *words, commands=("train",)):
    """A run that cannot start leaves its name free."""
    for command in commands:
        expect(ingot, {"run.name": "unborn", "run.if_exists": "fail", **settings}, *words, command=command)
    check(not (pathlib.Path(ingot.folder) / "unborn").exists(), "a run that could not start has left a folder")
    done = ingot.ask(("config", "check"), settings)
    check(done.returncode == 2 and words[0] in done.stderr, f"config check: {done}")


def check_files(ingot):
    folder = pathlib.Path(ingot.folder)
    tasks = folder / "tasks.jsonl"
    tasks.write_text("{\"task_id\": \"a\"}\n{\"task_id\": \n")
    expect(ingot, {"data.tasks": tasks, "run.name": "bad", "http.port": 0}, "tasks.jsonl", "2", codes=(1, 2))
    expect(ingot, {"data.tasks": "nothing.jsonl", "run.name": "bad", "http.port": 0}, "nothing.jsonl", codes=(1, 2))
    expect_name_free(ingot, {"data.tasks": "nothing.jsonl"}, "data.tasks: nothing.jsonl", os.path.realpath(ingot.source),
                     commands=("train", "launch"))
    expect_name_free(ingot, {"eval.tasks": tasks}, "eval.tasks", "tasks.jsonl:2")
    expect_name_free(ingot, {"data.sft": tasks}, "data.sft", "tasks.jsonl:1")
    expect_name_free(ingot, {"data.dpo": folder / "none.jsonl"}, "data.dpo", str(folder / "none.jsonl"))
    expect_name_free(ingot, {"agents.work_root": f"{tasks}/work"}, f"agents.work_root is {tasks}/work")
    expect_name_free(ingot, {"model.context_length": 8}, "the context has 8 tokens (model.context_length)", "raise it")
    recipe = {"name": "a", "command": ["/usr/bin/true"], "verifier": {"kind": "exact", "expected": "${task.answer}"}}
    for change, words in (({"command": ["no-such-agent"]}, ("recipe 'a': command: ", "no-such-agent")),
                          ({"files": {"q.json": "${task.question}"}}, ("recipe 'a': data.tasks", "files.q.json: ")),
                          ({"verifier": {"expected": "${task.solution}"}}, ("verifier.expected: ", "of 120 tasks)"))):
        expect_name_free(ingot, {"agents.recipes": json.dumps([{**recipe, **change}])}, *words)
    done = ingot.call("config", "check", "configs/smoke.yaml")
    check(done.returncode == 0 and done.stdout.startswith("run:"), f"config check: {done}")
    check(done.stderr == "ok: 120 tasks, 40 held-out tasks, 1920 conversations, 1 recipe checked (its command was not run), "
                         "context of 512 tokens\n", f"config check: {done.stderr}")
    expect(ingot, launch_settings("never"), "no role of run 'never' responds", "there is no run folder",
           command="status", codes=(1,))


def check_what_others_hold(ingot):
    """Ports that are taken, and the lock of a run's folder."""
    folder = pathlib.Path(ingot.folder)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for _ in range(2):  # a failed start leaves the name free
            expect(ingot, {"http.port": port, "run.name": "bad", "run.if_exists": "fail"}, str(port), codes=(1,))
        for key in ("cluster.datapool_port", "cluster.rollout_port", "http.port"):
            expect(ingot, {**launch_settings("unborn"), key: port}, key, str(port), command="launch", codes=(1,))
        check(not (folder / "unborn").exists(), "a run that could not start has left a folder")
        rejected = {"cluster.registry.kind": "etcd", "cluster.registry.endpoints": f"['127.0.0.1:{port}']"}
        expect(ingot, {**launch_settings("unborn"), **rejected}, "cluster.registry", f"127.0.0.1:{port}",
               "no member answered", command="launch", codes=(1,))
    # A launched run holds its folder's lock, as this process does. A second start would replace the run.
    held = folder / "held"
    held.mkdir()
    (held / "config.yaml").write_text("run: {name: held}\n")
    with open(held / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in ("launch", "train"):
            expect(ingot, {**launch_settings("held"), "run.if_exists": "replace"},
                   f"the run '{held}' is in use by another process", "choose another run.name", command=command, codes=(1,))
    check(sorted(path.name for path in held.iterdir()) == ["config.yaml", "lock"]
          and (held / "config.yaml").read_text() == "run: {name: held}\n", f"a second start changed {sorted(held.iterdir())}")


def check_plans(ingot):
    plan = ingot.run("launch", launch_settings("planned"), ("--dry-run",), timeout=60)
    check(plan[0] == 0 and [line.split()[0] for line in plan[1].splitlines()[1:]] ==
          ["datapool", "scheduler", "rollout-0", "gateway", "trainer", "agents"], f"the plan: {plan}")
    check(not (pathlib.Path(ingot.folder) / "planned").exists(), "a plan has left a folder")
    groups = [{"name": "all", "roles": ["datapool", "scheduler", "gateway", "trainer", "agents"]}]
    expect(ingot, {**launch_settings("unborn"), "cluster.groups": json.dumps(groups)}, "cluster.groups", "role rollout",
           command="launch")
    expect(ingot, {**launch_settings("unborn"), "cluster.launcher": "slurm"}, "cluster.groups", command="launch")
    expect(ingot, {**launch_settings("unborn"), "cluster.registry.ttl_s": 1}, "cluster.registry.ttl_s", command="launch")


def check_room(ingot):
    """A run that the machine cannot hold is refused, with the numbers, before its model or the engine's cache is
    allocated."""
    expect(ingot, {**launch_settings("crowded"), "rollout.kv_cache_tokens": 1 << 30}, "this machine does not have enough memory", "would fit",
           command="launch", codes=(1,))
    check_thread_limits(ingot)
    argv = ingot.argv("train", {"run.name": "large", "http.port": 0, "model.hidden_size": 8192, "model.layers": 800,
                                "model.intermediate_size": 28672, "rollout.kv_cache_tokens": 1 << 30})
    limit = 64 << 30  # would end a process that allocated it
    done = subprocess.run(argv, cwd=ingot.source, capture_output=True, text=True, timeout=60,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    check(done.returncode == 1, f"exit code {done.returncode}: {done.stdout} {done.stderr}")
    check("the run needs" in done.stderr and "lower trainer.micro_batch_tokens" in done.stderr, f"{done.stderr}")


def case_bad_input(ingot):
    """Bad input gives one clear error that names the cause, exit code 2, and no run."""
    check_command_line(ingot)
    check_values(ingot)
    check_files(ingot)
    check_what_others_hold(ingot)
    check_plans(ingot)
    model = pathlib.Path(ingot.folder) / "model"
    model.mkdir()
    (model / "config.json").write_text("{\"model_type\": \"qwen3\"}")
    expect(ingot, {"model.path": model, "run.name": "bad", "http.port": 0}, "model", codes=(1, 2))
    check_room(ingot)


def case_unstarted(ingot):
    """A run whose agents never get to a call ends soon, with the cause; a sound recipe is not taken for one."""
    text = pathlib.Path(f"{ingot.source}/configs/smoke.yaml").read_text(encoding="utf-8")
    failing = text.replace("      timeout_s: 30\n",
                           "      timeout_s: 30\n      setup: [{command: [sh, -c, 'echo no disk >&2; exit 7']}]\n")
    check(failing != text, "the smoke recipe has changed")
    ingot.config = f"{ingot.folder}/failing.yaml"
    pathlib.Path(ingot.config).write_text(failing, encoding="utf-8")
    cold = {"data.sft": "", "http.port": 0}
    for command, settings in (("train", {"run.name": "failing"}), ("launch", launch_settings("failing-launch"))):
        started = time.monotonic()
        code, output = ingot.run(command, {**settings, **cold}, timeout=120)
        check(code == 1, f"exit code {code}: {output}")
        ended = output.strip().splitlines()[-1]
        for words in ("ending the run", "setup[0] (sh) exited with 7; stderr ends: no disk"):
            check(words in ended, f"'{words}' is missing in: {ended}")
        check(time.monotonic() - started < 60, f"{command} took {time.monotonic() - started:.0f} s")

    # However fast agents crash, and however late a verifier breaks, few episodes are spent.
    for name, recipe in (("crashing", {"command": ["/bin/false"], "verifier": {"kind": "numeric", "expected": "1"}}),
                         ("unverified", {"verifier": {"kind": "command", "command": ["sh", "-c", "exit 9"]}})):
        write_asking_config(ingot, agent_seconds=0)
        settings = json.loads(pathlib.Path(ingot.config).read_text())
        settings["agents"]["recipes"][0].update(recipe)
        ingot.configure(name, settings)
        started = time.monotonic()
        code, output = ingot.run("train", {"run.name": name}, timeout=120)
        ended = output.strip().splitlines()[-1]
        # One that fails while the run is being given up counts too.
        failed = re.search(r"(\d+) consecutive episodes have failed in setup", ended)
        check(code == 1 and failed and 16 <= int(failed[1]) <= 20, f"exit code {code}: {output}")
        check({"crashing": "crash: ", "unverified": "verifier: "}[name] in ended, ended)
        spent = ingot.inspect(name, "--limit", "10000").count(" failed ")
        check(16 <= spent <= 40, f"{name}: {spent} episodes were spent in {time.monotonic() - started:.0f} s")

    # Samples that all earn the same teach nothing.
    write_asking_config(ingot, agent_seconds=0)
    settings = json.loads(pathlib.Path(ingot.config).read_text())
    settings["agents"]["recipes"][0]["verifier"]["expected"] = "7"
    ingot.configure("equal", settings)
    equal = {"run.name": "equal", "scheduler.max_drops_per_batch": 0, "scheduler.give_up_equal": 5}
    code, output = ingot.run("train", equal, timeout=120)
    ended = output.strip().splitlines()[-1]
    check(code == 1 and "ending the run" in ended and "all of their samples earned 0;" in ended, output)
    check("2 consecutive groups were dropped" in output and "after 5, the run ends" in output, output)

    # The agent dies of a clear refusal, which stands beside its crash.
    ingot.config = "configs/smoke.yaml"
    code, output = ingot.run("train", {**cold, "run.name": "short", "model.context_length": 40}, timeout=120)
    check(code == 1 and "ending the run" in output, f"exit code {code}: {output}")
    check("the gateway's last rejection: 400 context_length_exceeded: " in output.strip().splitlines()[-1], output)
    listed = [line.split()[0] for line in ingot.inspect("short").splitlines() if " failed " in line]
    shown = ingot.inspect("short", listed[0])
    check("the gateway's last rejection: 400 context_length_exceeded" in shown, shown)


def case_warnings(ingot):
    """Settings and results that are rarely meant are named on the terminal, at the start where they are known then."""
    folder = write_asking_config(ingot, agent_seconds=0.5)  # so that most tokens are stale
    agent = folder / "agent.py"
    # Of neighbours, an even share answers 1, so that chance does not hide the fall.
    falling = agent.read_text().replace("url = ", f"""begun = open("{folder}/begun").read().count("begun")
url = """).replace("print(len(answer) % 2)", "print(int(begun * 0.618034 % 1 < 0.95 - begun / 120))")
    check(falling != agent.read_text(), "the asking agent has changed")
    agent.write_text(falling)
    with open(f"{ingot.source}/examples/smoke/train.jsonl", encoding="utf-8") as tasks:
        (folder / "eval.jsonl").write_text(tasks.readline() + tasks.readline())
    code, output = ingot.run("train", {
        "run.name": "with-warnings", "eval.tasks": folder / "eval.jsonl", "eval.every_versions": 100,
        "trainer.learning_rate": 0.1, "trainer.eps_clip_low": 1e-4, "trainer.eps_clip_high": 1e-4,
        "agents.concurrency": 24, "scheduler.total_steps": 14, "scheduler.max_staleness": 3, "scheduler.drop_zero_variance": "false"})
    check(code == 0, output)
    start, end = output.split("step", 1)[0], output.split("wall time")[-1]
    for text, words in ((start, "warning: trainer.learning_rate is 0.1; 1e-08 to 0.005 is usual"),
                        (start, "warning: 2 of 2 tasks of eval.tasks are also training tasks"),
                        (end, "warning: the reward fell from "),
                        (end, "of the trained tokens had a clipped ratio (actor/clipfrac_low, actor/clipfrac_high)")):
        check(words in text, f"'{words}' is missing in: {output}")
    ingot.config = "configs/smoke.yaml"
    usual = {"model.hidden_size": 192, "model.intermediate_size": 640, "model.heads": 6, "model.kv_heads": 2}  # begins calls
    code, output = ingot.run("train", {**SHORT, **usual, "run.name": "cut", "scheduler.total_steps": 2, "gateway.max_new_tokens": 6})
    check("of the calls contain a tool call that the output format cannot parse (agent/malformed_ratio)" in output, output)


if __name__ == "__main__":
    main(case_bad_input, case_unstarted, case_warnings)
