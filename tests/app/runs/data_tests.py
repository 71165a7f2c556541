#!/usr/bin/env python3
"""Data without training: data_tests.py BINARY SOURCE_DIR CASE.

collect   `ingot collect`, and what reads its pool: tasks rate, tasks filter, regrade, export to SFT rows and ATIF, import
cases     the filter of test cases on the shipped example
tables    `ingot tasks import` of tables
examples  examples/judge and examples/long2short, in a few steps
orchestrated  a collection whose sub-agents are another model: its stages are compared with the gateway's count
graded_eval  the terms of a run beside the outcome of its evaluations
recall    export by the recall of episodes
retrain   `ingot retrain` repeats a run from its pool to the bit, and trains on it at another rate
choose    export of the shortest correct answer, and of pairs
vendor    a collection from a server that gives text alone
pinned_teacher  a launched run that is held to its own start
judge     a model of gateway.models as a judge
distil    on-policy distillation: a student approaches a teacher on another server

With INGOT_HARBOR=FOLDER, in which Harbor's package lies, the exported trajectories are validated by its models.
"""
import contextlib
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import threading

from ingot_runs import check, main, serving, write_asking_config, write_secret

SMALL = {
    "model.hidden_size": 64, "model.intermediate_size": 128, "model.layers": 2, "model.heads": 2, "model.kv_heads": 1,
    "gateway.max_new_tokens": 16, "http.port": 0, "goal.first_steps": 0, "goal.last_steps": 0, "eval.tasks": "",
}


def command(ingot, *argv, code=0):
    done = ingot.call(*argv, timeout=400)
    check(done.returncode == code, f"{argv}: exit code {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def lines(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()]


def sets(folder, settings):
    argv = ["--set", f"run.root={folder}"]
    for key, value in settings.items():
        argv += ["--set", f"{key}={value}"]
    return argv


def validate(trajectories):
    package = os.environ.get("INGOT_HARBOR")
    if not package:
        print("ATIF: not validated by Harbor (INGOT_HARBOR names no folder)")
        return
    sys.path.insert(0, package)
    from harbor.models.trajectories import Trajectory
    for trajectory in trajectories:
        Trajectory.model_validate(trajectory)
    print(f"ATIF: Harbor's models accept {len(trajectories)} trajectories")


def case_collect(ingot):
    folder = pathlib.Path(ingot.folder)
    tasks = folder / "tasks.jsonl"
    source = lines(pathlib.Path(ingot.source) / "examples/smoke/train.jsonl")[:4]
    # A random model's answer is no letter; the verifier below accepts any, so that half of the tasks are always right.
    for i, task in enumerate(source):
        task["pattern"] = "[^~]*" if i % 2 == 0 else "never"
    tasks.write_text("".join(json.dumps(task) + "\n" for task in source), encoding="utf-8")
    recipe = {"name": "any", "command": ["/usr/bin/python3", "-I", "-S", "${cwd}/examples/agents/tool_agent.py", "task.json"],
              "files": {"task.json": '{"prompt": ${json:task.prompt}}'}, "timeout_s": 60,
              "verifier": {"kind": "command", "command": ["sh", "-c", "test \"$0\" != never", "${task.pattern}"]}}
    settings = {**SMALL, "run.name": "pool", "data.tasks": tasks, "data.sft": "", "sft.max_steps": 0, "agents.recipes": json.dumps([recipe])}
    output = command(ingot, "collect", ingot.config, "--samples", 3, "--temperature", 1.2, *sets(folder, settings))
    check("12 episodes, 0 failed, mean outcome 0.5" in output, output)
    pool = folder / "pool"
    check(json.loads((pool / "collection.json").read_text())["episodes"] == 12, "collection.json lacks the result")

    # A script in place of the model: the recipe's agent looks a key up, and its answer is the task's.
    task = lines(pathlib.Path(ingot.source) / "examples/smoke/train.jsonl")[0]
    (tool, table), = task["tables"].items()
    script = [{"tool_calls": [{"name": tool, "arguments": {"key": next(iter(table))}}]}, {"content": str(task["answer"])}]
    for name, values in (("one.jsonl", [task]), ("script.jsonl", script)):
        (folder / name).write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    scripted = {**SMALL, "run.name": "scripted", "gateway.max_new_tokens": 200, "data.tasks": folder / "one.jsonl", "data.sft": "", "sft.max_steps": 0}
    output = command(ingot, "collect", ingot.config, "--script", folder / "script.jsonl", "--samples", 1, *sets(folder, scripted))
    check("1 episodes, 0 failed, mean outcome 1.0" in output, output)

    # A finished collection stays, and no run goes on from it; a stopped one begins again.
    again = ["collect", ingot.config, "--script", folder / "script.jsonl", "--samples", 1, "--temperature", 2, *sets(folder, scripted), "--set"]
    for if_exists in ("fail", "resume"):
        output = command(ingot, *again, f"run.if_exists={if_exists}", code=2)
        check("contains a finished collection" in output, output)
    output = command(ingot, "train", ingot.config, "--resume", *sets(folder, scripted), code=2)
    check("holds a collection and not a run to resume" in output, output)
    record = folder / "scripted" / "collection.json"
    done = json.loads(record.read_text())
    check(done["episodes"] == 1 and done["temperature"] == 1, done)
    record.write_text(json.dumps({name: value for name, value in done.items() if name != "episodes"}), encoding="utf-8")
    output = command(ingot, *again, "run.if_exists=fail", code=2)
    check("contains a collection that was stopped" in output, output)
    output = command(ingot, *again, "run.if_exists=resume")
    check("1 episodes, 0 failed" in output, output)
    check(json.loads(record.read_text())["temperature"] == 2, record.read_text())
    command(ingot, "tasks", "rate", folder / "scripted", folder / "one-rated.jsonl")
    check([task["pass_rate_samples"] for task in lines(folder / "one-rated.jsonl")] == [1], "the old episode is still there")

    rated = folder / "rated.jsonl"
    output = command(ingot, "tasks", "rate", pool, rated)
    check("at least 3 samples per task, at temperature 1.2" in output and "for more accurate rates, use 10 samples at a higher temperature" in output, output)
    rates = {task["task_id"]: (task["pass_rate"], task["pass_rate_samples"]) for task in lines(rated)}
    check(rates == {task["task_id"]: (1.0 if i % 2 == 0 else 0.0, 3) for i, task in enumerate(source)}, rates)
    output = command(ingot, "tasks", "filter", rated, folder / "none.jsonl", "--question-field", "prompt", code=2)
    check("trivial" in output and "impossible" in output, output)
    command(ingot, "tasks", "filter", tasks, folder / "some.jsonl", "--rated", pool, "--max-rate", 2)
    check([task["task_id"] for task in lines(folder / "some.jsonl")] == [source[0]["task_id"], source[2]["task_id"]], "filter")
    command(ingot, "tasks", "filter", tasks, folder / "some.jsonl", "--guesses", pool)
    check([task["task_id"] for task in lines(folder / "some.jsonl")] == [source[1]["task_id"], source[3]["task_id"]], "guesses")

    regraded = json.loads(command(ingot, "regrade", pool, "--json", "--set", "rewards.terms=[{kind: outcome, weight: 2}]"))
    check(regraded["groups"] == 4 and abs(regraded["regraded"] - 1.0) < 1e-9, regraded)

    rows = folder / "rows.jsonl"
    command(ingot, "export", pool, rows, "--as", "sft")
    check(len(lines(rows)) == 6 and all(row["outcome"] == 1 and row["learnt"] for row in lines(rows)), "rows")
    train = {**SMALL, "run.name": "from-rows", "data.tasks": "", "data.sft": rows, "sft.max_steps": 2, "sft.batch_size": 2}
    code, output = ingot.run("train", train, timeout=120)
    check(code == 0, output)

    atif = folder / "atif.jsonl"
    command(ingot, "export", pool, atif, "--as", "atif")
    trajectories = lines(atif)
    check(len(trajectories) == 12, len(trajectories))
    validate(trajectories)
    text_only = {"schema_version": "ATIF-v1.7", "agent": {"name": "other", "version": "1"}, "extra": {"outcome": 1, "task_id": "text"},
                 "steps": [{"step_id": 1, "source": "user", "message": "item nn"},
                           {"step_id": 2, "source": "agent", "message": "f"}]}
    validate([text_only])
    (folder / "text.json").write_text(json.dumps(text_only, indent=1), encoding="utf-8")
    output = command(ingot, "import", ingot.config, atif, folder / "text.json", *sets(folder, {**settings, "run.name": "imported"}))
    check("13 episodes of 5 tasks" in output and "1 of them encoded" in output, output)
    command(ingot, "export", folder / "imported", folder / "again.jsonl")
    again = lines(folder / "again.jsonl")
    check([row["ids"] for row in again if "encoded" not in row] == [row["ids"] for row in lines(rows)], "ids differ after ATIF")
    check(sum(row.get("encoded", False) for row in again) == 1, "the encoded row is not marked")


def case_recall(ingot):
    """Export by recall: high recall whole, low in proportion, at most 5 % without any, right or wrong."""
    folder = pathlib.Path(ingot.folder)
    recalls = [0.0] * 40 + [1.0] * 30 + [0.8] * 8 + [0.2] * 40
    trajectories = [{"schema_version": "ATIF-v1.7", "agent": {"name": "searcher", "version": "1"},
                     "extra": {"outcome": 0, "task_id": f"t{i}", "signals": {"recall": recall, "precision": 1}},
                     "steps": [{"step_id": 1, "source": "user", "message": f"find {i}"}, {"step_id": 2, "source": "agent", "message": "x"}]}
                    for i, recall in enumerate(recalls)]
    (folder / "found.jsonl").write_text("".join(json.dumps(one) + "\n" for one in trajectories), encoding="utf-8")
    command(ingot, "import", ingot.config, folder / "found.jsonl", *sets(folder, {**SMALL, "run.name": "found"}))
    rows = folder / "rows.jsonl"
    print(command(ingot, "export", folder / "found", rows, "--recall", "recall"))
    kept = [recalls[int(row["task_id"][1:])] for row in lines(rows)]
    check(kept.count(1.0) == 30 and kept.count(0.8) == 8, kept)
    check(0 < kept.count(0.2) < 40 // 2, kept)  # 10 are expected
    check(kept.count(0) == int(0.05 / 0.95 * (len(kept) - kept.count(0)) + 1e-9) > 0, kept)
    # Signals survive ATIF.
    command(ingot, "export", folder / "found", folder / "atif.jsonl", "--as", "atif")
    check([one["extra"]["signals"] for one in lines(folder / "atif.jsonl")] == [one["extra"]["signals"] for one in trajectories], "signals")
    # What is not there, or means nothing, is named.
    output = command(ingot, "export", folder / "found", rows, "--recall", "recal", code=2)
    check("no episode has the signal 'recal'" in output and "precision, recall" in output, output)
    for argv, said in ((["--recall", "recall", "--shortest"], "use either --shortest or --recall"),
                       (["--recall", "recall", "--as", "dpo"], "--shortest and --recall work only with --as sft")):
        check(said in command(ingot, "export", folder / "found", rows, *argv, code=2), argv)


def case_choose(ingot):
    """Export of the shortest correct answer, and of pairs: which answers are chosen and rejected is k1.5's section 2.4."""
    folder = pathlib.Path(ingot.folder)

    def answer(task, name, outcome, *lengths):
        """An episode of a call for each length. Each later call begins anew, so that the history forks."""
        steps = [{"step_id": i + 1, "source": "agent", "message": name, "metrics": {
            "prompt_token_ids": [65 + i, 66], "completion_token_ids": [97] * length}} for i, length in enumerate(lengths)]
        return {"schema_version": "ATIF-v1.7", "session_id": name, "agent": {"name": "a", "version": "1"}, "steps": steps,
                "extra": {"outcome": outcome, "task_id": task}}

    trajectories = [
        # The shortest correct answer has 10 tokens: 15 are 1.5 times as many.
        answer("sums", "right-14", 1, 14), answer("sums", "right-10", 1, 10), answer("sums", "right-15", 1, 15),
        answer("sums", "wrong-9", 0, 9), answer("sums", "wrong-10", 0, 10), answer("sums", "wrong-11", 0, 11),
        # The shortest correct one forked: it is a row each, and of no pair. So is the wrong one that forked.
        answer("forks", "right-2+2", 1, 2, 2), answer("forks", "right-6", 1, 6), answer("forks", "wrong-7", 0, 7),
        answer("forks", "wrong-20+20", 0, 20, 20),
        # Nothing is correct, and nothing is longer.
        answer("hard", "wrong-1", 0, 1), answer("hard", "wrong-2", 0, 2),
        answer("easy", "right-30", 1, 30), answer("easy", "wrong-3", 0, 3),
    ]
    names = {f"atif-{number}": one["session_id"] for number, one in enumerate(trajectories)}  # by episode
    (folder / "answers.jsonl").write_text("".join(json.dumps(one) + "\n" for one in trajectories), encoding="utf-8")
    command(ingot, "import", ingot.config, folder / "answers.jsonl", *sets(folder, {**SMALL, "run.name": "answers"}))

    output = command(ingot, "export", folder / "answers", folder / "all.jsonl")
    check(sorted(names[row["episode"]] for row in lines(folder / "all.jsonl")) == [
        "right-10", "right-14", "right-15", "right-2+2", "right-2+2", "right-30", "right-6"], output)
    output = command(ingot, "export", folder / "answers", folder / "shortest.jsonl", "--shortest")
    shortest = lines(folder / "shortest.jsonl")
    check([names[row["episode"]] for row in shortest] == ["right-10", "right-2+2", "right-2+2", "right-30"], output)
    check(shortest[0]["learnt"] == [[2, 12]], shortest[0])
    output = command(ingot, "export", folder / "answers", folder / "pairs.jsonl", "--as", "dpo")
    pairs = [(names[pair["chosen"]["episode"]], names[pair["rejected"]["episode"]]) for pair in lines(folder / "pairs.jsonl")]
    check(pairs == [("right-10", "wrong-11"), ("right-10", "right-15"), ("right-6", "wrong-7")], pairs)
    check("14 finished episodes, 6 with an outcome above" in output and "2 episodes are in no pair" in output, output)


def case_examples(ingot):
    """The programs of examples/judge and examples/long2short in a few steps: what they print is whole, and need not be good."""
    folder = pathlib.Path(ingot.folder)
    argv = [sys.executable, f"{ingot.source}/examples/judge/compare.py", ingot.binary, str(folder / "judges"), "--labels", "60", "20"]
    for one in ("sft.max_steps=4", "sft.batch_size=8", "scheduler.total_steps=1", "scheduler.drop_zero_variance=false",
                "scheduler.groups_per_step=2"):
        argv += ["--set", one]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    figures = r"[01]\.\d{3} supervised, [01]\.\d{3} after RL; \d+ s\n"
    check(re.fullmatch(r"majority +0\.[56]\d\d  of 20 held-out labels\n"
                       rf"classic \(one verdict\) +{figures}cot \(reasons first\) +{figures}"
                       r"the judge that reasons (beats|does not beat) both others\n", done.stdout), done)
    beats = "does not beat" not in done.stdout
    check(done.returncode == (0 if beats else 1), done)
    numbers = [float(number) for number in re.findall(r"(\d\.\d{3})(?: after|  of)", done.stdout)]  # majority, classic, cot
    check(beats == (numbers[2] > max(numbers[:2])), done.stdout)

    recipe = subprocess.run([f"{ingot.source}/examples/long2short/recipe.sh", ingot.binary, str(folder / "short"), "150"],
                            capture_output=True, text=True, timeout=500)
    check(recipe.returncode == 0, recipe)
    results = re.findall(r"^(\w+) +outcome ([01]\.\d\d) +([\d.]+) tokens +320 answers$", recipe.stdout, re.M)
    check([name for name, *_ in results] == ["long", "short", "rejection", "preference", "average"], recipe.stdout)


@contextlib.contextmanager
def vendor(log):
    """A server of plain chat completions, without token ids: it looks an item up by the request's tool and answers with the result."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *args):
            pass

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            log.append({"path": self.path, "key": self.headers["Authorization"], "body": body})
            if body["model"] == "busy" and len(log) == 1:
                return self.reply(429, "application/json", '{"error": {"message": "slow down"}}')
            if body["model"] == "broken":
                return self.reply(200, "text/html", "<html>a proxy's page</html>")
            if body["messages"][-1]["role"] == "user" and body.get("tools"):
                name = body["tools"][0]["function"]["name"]
                message = {"content": None, "tool_calls": [{"id": "v-1", "type": "function", "function": {"name": name, "arguments": '{"key": "nn"}'}}]}
            else:
                message = {"content": "wörd <|im_end|>"}
            if not body.get("stream"):
                return self.reply(200, "application/json", json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}]}))
            parts = [{"content": c} for c in message["content"] or ""]
            parts += [{"tool_calls": [{"index": i, **call}]} for i, call in enumerate(message.get("tool_calls", []))]
            events = [{"choices": [{"index": 0, "delta": part}]} for part in [{"role": "assistant"}, *parts]]
            events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
            self.reply(200, "text/event-stream", "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n")

        def reply(self, status, kind, text):
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def case_vendor(ingot):
    """A collection from a server that gives text alone: encoded, for supervised training, and never for a policy gradient."""
    folder = pathlib.Path(ingot.folder)
    tasks = folder / "tasks.jsonl"
    tasks.write_text("".join(json.dumps(task) + "\n" for task in lines(pathlib.Path(ingot.source) / "examples/smoke/train.jsonl")[:3]))
    recipe = {"name": "any", "command": ["/usr/bin/python3", "-I", "-S", "${cwd}/examples/agents/tool_agent.py", "task.json"],
              "files": {"task.json": '{"prompt": ${json:task.prompt}, "tools": ${task.tools}, "tables": ${task.tables}}'}, "timeout_s": 60,
              "verifier": {"kind": "exact", "expected": "wörd <|im_end|>"}}
    key = folder / "vendor.key"
    key.write_text("secret-of-the-vendor\n")
    key.chmod(0o600)
    base = {**SMALL, "data.tasks": tasks, "data.sft": "", "sft.max_steps": 0, "agents.recipes": json.dumps([recipe]), "gateway.max_new_tokens": 64}
    rows = folder / "rows.jsonl"
    for stream, served in ((False, "busy"), (True, "vendor-1")):
        name, log = f"vendor-{stream}", []
        with vendor(log) as url:
            models = json.dumps([{"name": "big", "weights": "external", "url": url, "served_model": served, "key_file": str(key), "stream": stream}])
            output = command(ingot, "collect", ingot.config, "--model", "big", "--samples", 2,
                             *sets(folder, {**base, "run.name": name, "gateway.models": models}))
        check("6 episodes, 0 failed, mean outcome 1.0" in output, output)
        check(all(one["path"] == "/v1/chat/completions" and one["key"] == "Bearer secret-of-the-vendor" for one in log), log)
        check(len(log) == 12 + (not stream), f"{len(log)} requests: two of each episode, and one that came too early")
        check(all(one["body"]["model"] == served and one["body"].get("stream", False) == stream for one in log), log)
        after = [one["body"]["messages"] for one in log if one["body"]["messages"][-1]["role"] == "tool"]
        check(len(after) == 6 and all(m[-2]["tool_calls"][0]["id"] == m[-1]["tool_call_id"] for m in after), after)
        # What reads a pool reads this one.
        command(ingot, "export", folder / name, rows)
        check(len(lines(rows)) == 6 and all(row["encoded"] and len(row["learnt"]) == 2 for row in lines(rows)), lines(rows)[0])
        command(ingot, "tasks", "rate", folder / name, folder / "rated.jsonl")
        check([task["pass_rate"] for task in lines(folder / "rated.jsonl")] == [1.0] * 3, "rated")
        regraded = json.loads(command(ingot, "regrade", folder / name, "--json", "--set", "rewards.terms=[{kind: outcome, weight: 2}]"))
        check(regraded["groups"] == 3 and abs(regraded["regraded"] - 2) < 1e-9, regraded)
        command(ingot, "export", folder / name, folder / "atif.jsonl", "--as", "atif")
        steps = [step for one in lines(folder / "atif.jsonl") for step in one["steps"] if step["source"] == "agent"]
        check(len(steps) == 12 and all(step["extra"]["encoded"] and "logprobs" not in step["metrics"] for step in steps), steps[0])
        code, output = ingot.run("train", {**SMALL, "run.name": f"sft-{stream}", "data.tasks": "", "data.sft": rows, "sft.max_steps": 2, "sft.batch_size": 2},
                                 timeout=120)
        check(code == 0, output)
    # A server that is down, or talks nonsense, fails the episodes by name. The agent asks a dead one again until its own limit.
    bad = json.dumps([{**recipe, "timeout_s": 12}])
    for served, url, words in (("broken", None, ["without choices[0].message: <html>a proxy's page</html>"]),
                               ("gone", "http://127.0.0.1:9/v1", ["127.0.0.1:9/v1/chat/completions", "Connection refused"])):
        with vendor([]) as working:
            models = json.dumps([{"name": "big", "weights": "external", "url": url or working, "served_model": served}])
            name = f"bad-{served}"
            output = command(ingot, "collect", ingot.config, "--model", "big", "--samples", 1,
                             *sets(folder, {**base, "run.name": name, "gateway.models": models, "scheduler.max_attempts": 1, "agents.recipes": bad}))
        check("mean outcome 0.0" in output and all(each in output for each in words), output)
    # No teacher speaks text, and a url is a url.
    models = '[{"name": "big", "weights": "external", "url": "vendor.example/v1"}]'
    code, output = ingot.run("train", {**base, "run.name": "no", "gateway.models": models})
    check(code == 2 and "begins with http://" in output, output)
    models = '[{"name": "big", "weights": "external", "url": "http://127.0.0.1:9/v1"}]'
    code, output = ingot.run("train", {**base, "run.name": "no", "gateway.models": models, "rewards.terms": "[{kind: teacher, teacher: {model: big}}]"})
    check(code == 2 and "whose server takes ids" in output, output)


def case_orchestrated(ingot):
    """In a collection, every model is pinned. The names of gateway.models tell the sub-agents' calls from the policy's."""
    folder = pathlib.Path(ingot.folder)
    look = {"tool_calls": [{"name": "lookup", "arguments": {"key": "k"}}]}
    script = [{"tool_calls": [{"name": "assign_task", "arguments": {"agent": "a", "task": "k"}}]}, look, {"content": "kc"}, {"content": "kc"}]
    tool = {"type": "function", "function": {"name": "lookup", "parameters": {"type": "object", "properties": {"key": {"type": "string"}}}}}
    task = {"task_id": "t", "prompt": "do k", "tools": [tool], "tables": {"lookup": {"k": "kc"}}, "answer": "kc"}
    (folder / "script.jsonl").write_text("".join(json.dumps(line) + "\n" for line in script), encoding="utf-8")
    (folder / "tasks.jsonl").write_text(json.dumps(task) + "\n", encoding="utf-8")
    team = '{"prompt": ${json:task.prompt}, "answer": ${json:task.answer}, "create_on_assign": true, ' \
           '"sub_agent": {"tools": ${task.tools}, "tables": ${task.tables}}}'
    recipe = {"name": "team", "command": ["/usr/bin/python3", "-I", "-S", "${cwd}/examples/agents/orchestrator.py", "task.json"],
              "files": {"task.json": team}, "timeout_s": 60, "verifier": {"kind": "agent_posted"}}
    settings = {**SMALL, "run.name": "team", "gateway.max_new_tokens": 200, "data.tasks": folder / "tasks.jsonl", "data.sft": "", "sft.max_steps": 0,
                "gateway.models": "[{name: sub-agent, weights: pinned, version: 0}]", "agents.recipes": json.dumps([recipe])}
    output = command(ingot, "collect", ingot.config, "--script", folder / "script.jsonl", "--samples", 1, *sets(folder, settings))
    check("1 episodes, 0 failed, mean outcome 1.0" in output, output)
    for budget, value in ((4, 0), (3, -1)):  # (1 + 2) + 1 steps
        terms = f"rewards.terms=[{{kind: parl_finish}}, {{kind: critical_steps, critical_steps: {{budget: {budget}}}}}]"
        regraded = json.loads(command(ingot, "regrade", folder / "team", "--json", "--set", terms))
        check(regraded["episodes_ungraded"] == 0 and regraded["terms"] == {"parl_finish": 1, "critical_steps": value}, regraded)
    other = command(ingot, "regrade", folder / "team", "--set", "rewards.terms=[{kind: parl_finish}]", "--set", "gateway.models=[]")
    check("1 episodes could not be scored" in other and "4 answered calls of the policy and 0 of other models" in other, other)
    command(ingot, "export", folder / "team", folder / "team.jsonl")
    check(sum(len(row["learnt"]) for row in lines(folder / "team.jsonl")) == 2, "only the orchestrator's turns are learnt")


def case_graded_eval(ingot):
    """The terms of a run are applied to its evaluations too, beside the outcome."""
    tasks = pathlib.Path(ingot.folder) / "held_out.jsonl"
    held_out = lines(pathlib.Path(ingot.source) / "examples/smoke/eval.jsonl")[:4]
    tasks.write_text("".join(json.dumps({**task, "domain": f"d{i % 2}"}) + "\n" for i, task in enumerate(held_out)))
    terms = "[{kind: outcome}, {kind: overlong, weight: 0.5, overlong: {max_tokens: 8, soft_tokens: 4}}, " \
            "{kind: language_mixing, weight: 0.25, language_mixing: {language: ru}}]"  # gives values to calls; every letter is foreign
    settings = {**SMALL, "run.name": "graded", "sft.max_steps": 10, "eval.tasks": tasks, "eval.avg_n": 2, "rewards.terms": terms,
                "scheduler.total_steps": 1, "scheduler.groups_per_step": 2, "scheduler.group_size": 2, "scheduler.max_drops_per_batch": 1}
    code, output = ingot.run("train", settings, timeout=240)
    check(code == 0, output)
    # The trainer waited for the one batch there is: the first step counts in the summary.
    idle = re.search(r"idle shares +trainer (\d+)%", output)
    check(idle and int(idle[1]) > 0, output)
    row, = [row for row in ingot.metrics("graded") if "eval/reward_mean" in row]
    check(row["eval/ungraded"] == 0 and -1 <= row["eval/term/overlong"] <= 0, row)
    check(row["eval/term/language_mixing"] < 0, row)
    graded = row["eval/term/outcome"] + 0.5 * row["eval/term/overlong"] + 0.25 * row["eval/term/language_mixing"]
    check(abs(row["eval/graded_mean"] - graded) < 1e-9, row)
    check(abs(row["eval/term/outcome"] - row["eval/reward_mean"]) < 1e-9, row)
    # Every figure of the record is there as a whole and for both domains, whose means are the whole's.
    for name in ("reward_mean", "reward_stderr", "pass@1", "pass@2", "truncated_ratio", "response_length/mean", "num_turns/mean"):
        check(all(f"eval/{name}{part}" in row for part in ("", "@domain:d0", "@domain:d1")), f"{name}: {row}")
    for name in ("reward_mean", "pass@1", "pass@2", "response_length/mean"):
        mean = (row[f"eval/{name}@domain:d0"] + row[f"eval/{name}@domain:d1"]) / 2
        check(abs(row[f"eval/{name}"] - mean) < 1e-9, f"{name}: {row}")
    check("eval/pass@4" not in row and row["eval/episodes@domain:d0"] == 4 and row["eval/response_length/mean"] >= 1, row)


def case_retrain(ingot):
    """A run's stored batches give every step again to the bit; another rate parts from it after the first gradient."""
    folder = write_asking_config(ingot, agent_seconds=0)
    run = {"scheduler.total_steps": 3, "scheduler.max_staleness": 0, "trainer.checkpoint_every": 1, "trainer.decay": "linear", "trainer.warmup_steps": 0}
    code, output = ingot.run("train", {**run, "run.name": "first"}, timeout=240)
    check(code == 0, output)
    retrain = ["retrain", folder / "first"]

    def steps(name):  # loss and norm of the gradient
        return [numbers[:2] for step, (_, numbers) in sorted(ingot.steps_trained(name).items())]

    def checksums(name):
        states = sorted((folder / name / "checkpoints").glob("step-*/state.json"))
        return [json.loads(state.read_text(encoding="utf-8"))["weights_checksum"] for state in states]

    first = steps("first")
    check(len(first) == 3 and all(norm > 0 for _, norm in first) and len(set(checksums("first"))) == 4, (first, checksums("first")))

    # A configuration without a model, a seed and sizes of groups has the run's. Two starts follow one schedule.
    bare = json.loads(pathlib.Path(ingot.config).read_text(encoding="utf-8"))
    del bare["model"], bare["run"], bare["scheduler"]["group_size"], bare["scheduler"]["groups_per_step"]
    ingot.configure("bare", bare)
    again = {**run, "run.name": "again", "run.if_exists": "fail"}
    code, output = ingot.run(retrain, again, ("--steps", "2"), timeout=120)
    check(code == 0 and steps("again") == first[:2], (output, first, steps("again")))
    code, output = ingot.run(retrain, again, timeout=120)
    check(code == 2 and "--resume" in output, output)
    code, output = ingot.run(retrain, again, ("--resume",), timeout=120)
    check(code == 0 and steps("again") == first, (output, first, steps("again")))
    check(checksums("again") == checksums("first"), (checksums("again"), checksums("first")))
    row = ingot.metrics("again")[0]
    check("mismatch/probe_tokens" not in row and "scheduler/head" not in row and row["async/staleness_max"] == ingot.metrics("first")[0]["async/staleness_max"], row)
    command(ingot, "report", folder / "again", folder / "again.html")
    output = command(ingot, "inspect", folder / "again", code=2)
    check("retrain.json" in output, output)

    other = {**run, "run.name": "other", "trainer.learning_rate": 1e-4}
    code, output = ingot.run(retrain, other, ("--steps", "2"), timeout=120)
    check(code == 0 and steps("other")[0] == first[0] and steps("other")[1] != first[1], (output, first, steps("other")))
    check(checksums("other")[0] == checksums("first")[0] and checksums("other")[1] != checksums("first")[1], checksums("other"))

    for words, settings, why in (
            (["retrain", folder / "none"], other, "is not a run folder"),
            (["retrain", folder / "again"], {**run, "run.name": "third"}, "retrain.json"),
            (retrain, {**run, "run.name": "first", "run.if_exists": "replace"}, "choose another run.name"),
            (retrain, {**run, "run.name": "third", "scheduler.group_size": 2}, "scheduler.group_size is 2"),
            (retrain, {**run, "run.name": "third", "data.tasks": "", "data.sft": "examples/smoke/sft.jsonl"}, "data.tasks")):
        code, output = ingot.run(words, settings, timeout=60)
        check(code == 2 and why in output, (code, output))
    check((folder / "first" / "pool").exists() and not (folder / "third").exists(), "a refused retraining left something")


def case_tables(ingot):
    """Tasks from tables: rows in order, columns by name, and errors that name the file and row."""
    folder = pathlib.Path(ingot.folder)
    out = folder / "tasks.jsonl"

    def rejected(*argv):
        before = out.read_text(encoding="utf-8")
        said = command(ingot, "tasks", "import", *argv, code=2)
        check(out.read_text(encoding="utf-8") == before and not list(folder.glob("tasks.jsonl.*")), f"{argv} changed the file")
        return said

    (folder / "sums.csv").write_text('question,answer,level\n"2+2, then?","It is 4.\n#### 4",easy\n3+4,#### 1 007,hard\n', encoding="utf-8")
    said = command(ingot, "tasks", "import", folder / "sums.csv", out, "--field", "prompt=question", "--field", "answer",
                   "--extract", r"answer=#### (.*)", "--domain", "sums")
    check(said.startswith("2 tasks in"), said)
    check(lines(out) == [{"prompt": "2+2, then?", "answer": "4", "task_id": "row-1", "domain": "sums"},
                         {"prompt": "3+4", "answer": "1 007", "task_id": "row-2", "domain": "sums"}], out.read_text(encoding="utf-8"))
    check("row 1 of" in rejected(folder / "sums.csv", out, "--field", "a=b"), "a missing column")
    said = rejected(folder / "sums.csv", out, "--extract", "level=e.*y")
    check("row 2 of" in said and "'level' does not match e.*y: hard" in said, said)
    check("FIELD=PATTERN" in rejected(folder / "sums.csv", out, "--extract", "answer"), "a pattern without a field")
    check("no column 'missing'" in rejected(folder / "sums.csv", out, "--id", "missing"), "a missing column of ids")

    (folder / "hub/data").mkdir(parents=True)
    for name, rows in (("train-1.jsonl", [{"id": 7, "n": 1}]), ("train-0.jsonl", [{"id": 3, "n": 12345678901234567890}]), ("test.jsonl", [{"id": 9}])):
        (folder / "hub/data" / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    command(ingot, "tasks", "import", folder / "hub", out, "--id", "id")
    check([row["task_id"] for row in lines(out)] == ["3", "7"] and lines(out)[0]["n"] == 12345678901234567890, "the split train")
    command(ingot, "tasks", "import", folder / "hub", out, "--id", "id", "--split", "test", "--limit", "1")
    check([row["task_id"] for row in lines(out)] == ["9"], "the split test")
    check("train-0.jsonl" in rejected(folder / "hub", out, "--split", "dev"), "an unknown split lists what is there")

    (folder / "twice.json").write_text('[{"id": 1}, {"id": 1}]', encoding="utf-8")
    check("twice.json:2: the task id '1' is already used" in rejected(folder / "twice.json", out, "--id", "id"), "two tasks of one id")
    for name, text in (("cut.json", "[{"), ("words.jsonl", "1\n"), ("table.xlsx", ""), ("empty.csv", "a,b\n"), ("bytes.csv", None)):
        (folder / name).write_bytes(b"a\n\xff\xfe\n") if text is None else (folder / name).write_text(text, encoding="utf-8")
        check("ingot:" in rejected(folder / name, out), name)
    check("cannot run 'no-such-python'" in rejected(folder / "sums.csv", out, "--python", "no-such-python"), "an interpreter that is missing")


def case_cases(ingot):
    out = pathlib.Path(ingot.folder) / "problems.jsonl"
    output = command(ingot, "tasks", "cases", "examples/recipes/cases.jsonl", out, "--allow-process", "--timeout", 60)
    check("kept 1 of 2 problems" in output and "cases kept, fewer than 40" in output, output)
    problem, = lines(out)
    check(problem["task_id"] == "sum" and len(problem["tests"]) == 50 and "submissions" not in problem, problem["task_id"])
    for test in problem["tests"]:
        check(int(test["output"]) == sum(map(int, test["input"].split())), test)


@contextlib.contextmanager
def other_server(ingot, settings):
    """Trains a model under supervision and serves it; gives the `gateway.models` that name it `big`."""
    folder = pathlib.Path(ingot.folder)
    code, output = ingot.run("train", {**SMALL, **settings, "run.name": "teacher", "data.tasks": ""}, timeout=240)
    check(code == 0, output)
    token = write_secret(ingot, "teacher.token")
    served = sorted(path.parent for path in (folder / "teacher").glob("**/model.safetensors"))[-1]
    with serving(ingot, served, "--rollout-port", "0", "--threads", "1", "--token-file", token) as line:
        check("token ids at" in line, f"serve said: {line}")
        yield json.dumps([{"name": "big", "weights": "external", "address": line.split("token ids at ")[1].strip(),
                           "token_file": str(token)}])


def case_judge(ingot):
    """A model of gateway.models judges the episodes of a run: its verdicts have the schema's form, whatever its weights are."""
    long = {"model.context_length": 4096}
    with other_server(ingot, {**long, "sft.max_steps": 1}) as models:
        settings = {**SMALL, **long, "run.name": "judged", "sft.max_steps": 1, "gateway.models": models, "scheduler.total_steps": 1,
                    "scheduler.groups_per_step": 2, "scheduler.group_size": 4, "scheduler.max_drops_per_batch": 1,
                    "rewards.terms": "[{kind: outcome}, {kind: judge, weight: 0.5, judge: {model: big, question_field: prompt, "
                                     "max_tokens: 1500, timeout_s: 200}}]"}
        code, output = ingot.run("train", settings, timeout=400)
        check(code == 0, output)
        row, = [row for row in ingot.metrics("judged") if "reward/mean" in row]
        print("judge:", row.get("reward/term/judge"), "ungraded:", row["batch/episodes_ungraded"])
        check(0 <= row["reward/term/judge"] <= 1 and row["batch/episodes_ungraded"] < 8, row)


def case_pinned_teacher(ingot):
    """Roles as processes; the teacher is the run's own start. It scores what it sampled itself to the bit."""
    settings = {**SMALL, "run.name": "own", "sft.max_steps": 20, "gateway.models": "[{name: start, weights: pinned, version: 0}]",
                "rewards.terms": "[{kind: outcome}, {kind: teacher, weight: 0.1, teacher: {model: start}}]",
                "scheduler.total_steps": 2, "scheduler.groups_per_step": 2, "scheduler.group_size": 2, "scheduler.max_staleness": 0,
                "cluster.datapool_port": 0, "cluster.scheduler_port": 0, "cluster.gateway_port": 0, "cluster.rollout_port": 0}
    code, output = ingot.run("launch", settings, timeout=300)
    check(code == 0, output)
    kl = [row["reward/term/teacher/reverse_kl"] for row in ingot.metrics("own") if "reward/mean" in row]
    print("reverse KL to the start:", kl)
    check(len(kl) == 2 and kl[0] == 0, kl)


def case_distil(ingot):
    folder = pathlib.Path(ingot.folder)
    with other_server(ingot, {"sft.max_steps": 200, "sft.batch_size": 8, "sft.learning_rate": 3e-3}) as models:
        student = {**SMALL, "run.name": "student", "sft.max_steps": 50, "sft.batch_size": 8, "sft.learning_rate": 3e-3, "run.seed": 5,
                   "gateway.models": models, "gateway.max_new_tokens": 24,
                   "rewards.terms": "[{kind: teacher, teacher: {model: big}}]",
                   "scheduler.total_steps": 50, "scheduler.groups_per_step": 8, "scheduler.group_size": 4, "scheduler.max_staleness": 0,
                   "trainer.learning_rate": 2e-3, "trainer.loss_aggregation": "token", "trainer.reference_kl_coefficient": 0,
                   "trainer.max_step_kl": 0, "trainer.max_step_kl_position": 0, "trainer.advantage_normalization": "none"}
        code, output = ingot.run("train", student, timeout=500)
        check(code == 0, output)
        rows = [row for row in ingot.metrics("student") if "reward/term/teacher/reverse_kl" in row]
        kl = [row["reward/term/teacher/reverse_kl"] for row in rows]
        print("reverse KL by step:", " ".join(f"{value:.3f}" for value in kl))
        check(len(kl) == 50 and sum(kl[-5:]) < 0.7 * sum(kl[:5]), kl)
        shown = f"  outcome {rows[-1]['reward/outcome']:.3f}  reverse KL {kl[-1]:.3f}  "
        check(shown in output and "  reward 0.000" not in output, f"not '{shown}' in {output}")
        check("outcome by step " in output and "mean reward was" not in output and "teach nothing" not in output, output)
        check(all(row["batch/groups_filtered"] == 0 and row["batch/loss_tokens"] > 0 for row in rows), "groups were filtered")
        # Regrade asks the same teacher about the stored ids.
        regraded = json.loads(command(ingot, "regrade", folder / "student", "--json"))
        check(0 < regraded["reverse_kl"]["teacher"] < 10 and regraded["episodes_ungraded"] == 0, regraded)
        stored = [row["reward/term/teacher/reverse_kl"] for row in rows]
        for step, kl in zip(regraded["steps"], stored):
            check(abs(step["reverse_kl"]["teacher"] - kl) < 1e-3, (step, kl))
        pinned = "[{name: big, weights: pinned, version: 0}]"
        output = command(ingot, "regrade", folder / "student", "--set", f"gateway.models={pinned}", code=2)
        check("regrade starts no engine" in output and "ingot serve" in output, output)
        # The same run under an unknown name is refused before it starts.
        code, output = ingot.run("train", {**student, "run.name": "unknown", "rewards.terms": "[{kind: teacher, teacher: {model: small}}]"})
        check(code == 2 and "teacher.model is 'small'" in output, output)
        # The same server answers every call of a collection.
        tasks = folder / "few.jsonl"
        tasks.write_text("".join(json.dumps(task) + "\n" for task in lines(pathlib.Path(ingot.source) / "examples/smoke/train.jsonl")[:3]))
        collection = {**SMALL, "run.name": "collected", "data.tasks": tasks, "data.sft": "", "sft.max_steps": 0, "gateway.models": models}
        output = command(ingot, "collect", ingot.config, "--model", "big", "--samples", 2, *sets(folder, collection))
        check("6 episodes, 0 failed" in output, output)
        command(ingot, "export", folder / "collected", folder / "collected.jsonl", "--above", -1)
        check(len(lines(folder / "collected.jsonl")) >= 6, "the external model's turns are not learnt")


if __name__ == "__main__":
    main(case_collect, case_cases, case_tables, case_examples, case_orchestrated, case_graded_eval, case_recall, case_choose, case_vendor, case_pinned_teacher,
         case_judge, case_distil, case_retrain)
