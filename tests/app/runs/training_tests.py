#!/usr/bin/env python3
"""Training of one process, from its files to its goal: training_tests.py BINARY SOURCE_DIR CASE [--seed S].

Cases: smoke (the whole smoke run meets its goal), seeds (so it does with five seeds), supervised (SFT and DPO from files
alone, on one process and on two ranks, stopped and killed), speculation (it changes no byte of a run), rewards (composed
rewards, regraded and exported), evaluate (the evaluation of a checkpoint), scaffolds (several scaffolds and sets at
once, and the comparison of two checkpoints).
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

from ingot_runs import (SHORT, check, check_run, main, role_process, wait_for_rows, wait_until, write_asking_config,
                        write_text_reward_config)


def case_smoke(ingot, steps=40, seed=1):
    """The smoke run meets its goal, and its rows keep the laws of a run. With fewer `steps` it has to get half as far."""
    whole = steps == 40
    goal = {} if whole else {"scheduler.total_steps": steps, "goal.last_reward_above": 0.5}
    subprocess.run(["/usr/bin/python3", "-m", "compileall", "-q", f"{ingot.source}/examples/agents"], check=True)
    started = time.time()
    code, output = ingot.run("train", {"http.port": 0, "run.seed": seed, **goal})
    print(output)
    check(code == 0, f"exit code {code}")
    rows = check_run(ingot, "smoke", steps)
    check(rows[-1]["scheduler/finished_episodes"] >= 1000, "fewer than 1,000 episodes")
    check(all(row["perf/update_weights_wire_bytes"] == 0 for row in rows), "weights were encoded within one process")
    check(any("perf/first_token_ms" in row for row in rows), "no version has a first token")
    evals = [row for row in ingot.metrics("smoke") if "eval/reward_mean" in row]
    check(evals and evals[-1]["eval/reward_mean"] > (0.7 if whole else 0.4), f"held-out reward: {evals}")
    print(f"wall time {time.time() - started:.0f} s")


def case_speculation(ingot):
    """Runs with one seed and S 0 end in equal weights: without guesses, with guesses from history, and with a draft head."""
    write_text_reward_config(ingot)
    # One group at a time, so that the order of the groups' ends does not matter. At this temperature, a random model repeats itself.
    settings = {"scheduler.total_steps": 3, "scheduler.groups_per_step": 1, "scheduler.max_staleness": 0, "trainer.checkpoint_every": 1,
                "gateway.max_new_tokens": 40, "gateway.train_sampling.temperature": 0.1}

    def checksums(name, **more):
        code, output = ingot.run("train", {**settings, "run.name": name, **more}, timeout=240)
        check(code == 0, output)
        states = sorted(pathlib.Path(ingot.folder, name, "checkpoints").glob("step-*/state.json"))
        return [json.loads(state.read_text(encoding="utf-8"))["weights_checksum"] for state in states]

    off = {"rollout.speculation.drafters": "[]"}
    plain = checksums("plain", **off)
    check(len(set(plain)) >= 3, f"a step changed nothing: {plain}")
    guessed = checksums("guessed", **{"rollout.speculation.drafters": "[given, history]", "rollout.speculation.min_gain": -1})
    check(guessed == plain, f"{guessed}, {plain}")
    rows = ingot.metrics("guessed")
    check(sum(row.get("rollout/accepted_tokens/history", 0) for row in rows) > 20, rows)
    check(max(row["rollout/tokens_per_pass"] for row in rows) > 1, rows)
    check(all(row["mismatch/logprob_abs_diff_max"] == 0 for row in rows), rows)
    check(all(row["rollout/tokens_per_pass"] == 1 for row in ingot.metrics("plain")), "tokens per pass")
    headed = checksums("headed", **{"draft.enabled": "true", "draft.publish_every": 1, "draft.learning_rate": 1e-2, "draft.shadow": "true",
                                    "rollout.speculation.drafters": "[mtp]", "rollout.speculation.min_gain": -1})
    check(headed == plain, f"{headed}, {plain}")
    rows = ingot.metrics("headed")
    check(sum(row.get("rollout/accepted_tokens/mtp", 0) for row in rows) > 5, rows)
    check(all(row["mismatch/logprob_abs_diff_max"] == 0 and row["draft/skipped"] == 0 for row in rows), rows)
    check(all(row["draft/shadow_tokens_per_pass"] >= 1 for row in rows), rows)
    check(pathlib.Path(ingot.folder, "headed", "checkpoints", "step-00000003", "draft", "model.safetensors").exists(), "no head")


def case_seeds(ingot):
    """The smoke run meets its goal with five seeds."""
    for seed in range(1, 6):
        code, output = ingot.run("train", {"http.port": 0, "run.seed": seed})
        print(f"seed {seed}: exit {code}: {output.splitlines()[-1]}")
        check(code == 0, output)


def case_supervised(ingot):
    """SFT, then DPO, from files alone, without a gateway; the result is a model folder to train on and to serve."""
    folder = pathlib.Path(ingot.folder)
    pairs = folder / "pairs.jsonl"
    with pairs.open("w") as file:
        for i in range(40):
            prompt = [{"role": "user", "content": f"item {i}"}]
            answers = [{"role": "assistant", "content": word} for word in ("yes", "no")]
            file.write(json.dumps({"prompt": prompt, "chosen": answers[0], "rejected": answers[1]}) + "\n")
    settings = {"run.name": "files", "data.tasks": "", "data.dpo": pairs, "sft.max_steps": 10, "dpo.epochs": 6,
                "dpo.learning_rate": 1e-3, "eval.tasks": "", "goal.first_steps": 0, "goal.last_steps": 0}
    code, output = ingot.run("train", settings)
    check(code == 0 and "gateway" not in output, output)
    rows = ingot.metrics("files")
    steps = 40  # many more than the 17 behind which runs are ended
    check([row["step"] for row in rows] == list(range(steps)), f"{len(rows)} rows")
    check(rows[9]["sft/nll"] < rows[0]["sft/nll"], "the supervised stage did not learn")
    check(all(row["perf/of_bound"] > 0 and row["tree/speedup_bound"] > 1 for row in rows), "a step without its bound")
    check("  tree " in output and "x of " in output, output)
    check(rows[10]["dpo/accuracy"] == 0.5 and rows[-1]["dpo/accuracy"] == 1, f"{rows[10]} {rows[-1]}")
    checkpoint = folder / "files" / "checkpoints" / "step-00000000"
    check((checkpoint / "model.safetensors").exists() and (checkpoint / "config.json").exists(), "no model folder")
    code, output = ingot.run("train", settings, ["--resume"])
    check(code == 0 and "nothing left to do" in output, output)
    stopped = dict(settings, **{"run.name": "stopped", "sft.checkpoint_every": 4, "dpo.checkpoint_every": 4})
    for rows, end, extra in ((6, signal.SIGINT, ()), (17, signal.SIGKILL, ("--resume",))):
        process = ingot.start("train", stopped, extra)
        wait_for_rows(ingot, process, "stopped", rows)
        process.send_signal(end)
        process.communicate()
    code, output = ingot.run("train", stopped, ["--resume"])
    check(code == 0 and "resuming after" in output, output)
    check([row["step"] for row in ingot.metrics("stopped")] == list(range(steps)), "the steps of the resumed stages")
    weights = [folder / name / "checkpoints/step-00000000/model.safetensors" for name in ("files", "stopped")]
    check(weights[0].read_bytes() == weights[1].read_bytes(), "a killed and resumed stage came to other weights")
    check(not (folder / "stopped/stages").exists(), "the stages' checkpoints are still there")
    good_pairs = folder / "good_pairs.jsonl"
    good_pairs.write_text(pairs.read_text())
    pairs.write_text("{\"prompt\": 3}\n")
    code, output = ingot.run("train", dict(settings, **{"run.name": "bad", "sft.max_steps": 0, "sft.epochs": 0}))
    check(code in (1, 2) and "pairs.jsonl:1" in output, output)
    # A fault of the second file is found before the first stage begins, even if only the model's context shows it.
    long_answer = {"role": "assistant", "content": "word " * 4000}
    pairs.write_text(good_pairs.read_text() + json.dumps({"prompt": [{"role": "user", "content": "q"}],
                                                          "chosen": long_answer, "rejected": long_answer}) + "\n")
    code, output = ingot.run("train", dict(settings, **{"run.name": "long"}))
    check(code != 0 and "pairs.jsonl" in output and "context length" in output, output)
    check(not ingot.steps_trained("long"), "a run with a bad second file made steps")
    check_supervised_ranks(ingot, steps, dict(settings, **{"data.dpo": good_pairs, "sft.checkpoint_every": 4,
                                                           "dpo.checkpoint_every": 4}))
    code, output = ingot.run("gateway", settings, timeout=60)
    check(code == 2 and "data.tasks" in output, output)


def check_supervised_ranks(ingot, steps, settings):
    """The run `files` on two ranks: `ingot launch` starts the trainer's processes and no others. Ranks that are killed,
    stopped and resumed end with the same bits as undisturbed ones."""
    folder = pathlib.Path(ingot.folder)

    def of(name):
        return dict(settings, **{"run.name": name, "cluster.trainer_ranks": 2})

    code, output = ingot.run("launch", of("file-ranks"))
    check(code == 0 and ": 2 processes;" in output and "`ingot status configs/smoke.yaml --set" in output, output)
    rows = ingot.metrics("file-ranks")
    check([row["step"] for row in rows] == list(range(steps)), f"{len(rows)} rows")
    check(all(row["trainer/ranks"] == 2 for row in rows), "a supervised step was one rank's")
    for row, alone in zip(rows[:30], ingot.metrics("files")):
        for name in alone.keys() & {"sft/loss", "dpo/loss"}:  # a bound of fp32 rounding over the first thirty steps
            check(abs(row[name] - alone[name]) <= 1e-3 * max(1, abs(alone[name])), f"{row} on ranks, {alone} alone")
    code, output = ingot.run("launch", of("file-ranks"), ["--resume"])
    check(code == 0 and "nothing left to do" in output, output)
    launch = ingot.start("launch", of("rank-files"))
    for rows, end in ((6, lambda: os.kill(role_process(launch, "trainer-1"), signal.SIGKILL)),
                      (17, lambda: launch.send_signal(signal.SIGINT))):
        wait_for_rows(ingot, launch, "rank-files", rows)
        end()
    output = launch.communicate(timeout=300)[0]
    check("they are started again together" in output and "resuming after" in output, output)
    check(launch.returncode != 0 and not any((folder / "rank-files/checkpoints").iterdir()), output)
    code, output = ingot.run("launch", of("rank-files"), ["--resume"])
    check(code == 0 and "resuming after" in output, output)
    check([row["step"] for row in ingot.metrics("rank-files")] == list(range(steps)), "the steps of the resumed ranks")
    for shard in ("00001-of-00002", "00002-of-00002"):
        weights = [folder / name / f"checkpoints/step-00000000/model-{shard}.safetensors"
                   for name in ("file-ranks", "rank-files")]
        check(weights[0].read_bytes() == weights[1].read_bytes(), "killed and resumed ranks came to other weights")
    check(not (folder / "rank-files/stages").exists(), "the ranks' checkpoints of the stages are still there")


def case_rewards(ingot):
    """Composed rewards: each group is judged once, by all terms, before any batch takes it, through a kill -9."""
    # Few tasks, so that most groups are of a task whose budget another group fixed.
    tasks = pathlib.Path(ingot.folder) / "few.jsonl"
    lines = pathlib.Path(f"{ingot.source}/examples/smoke/train.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    tasks.write_text("".join(lines[:3]), encoding="utf-8")
    toggle = "{kind: toggle, weight: 0.5, toggle: {rho: 1, lambda: 0.01}}"
    terms = f"[{{kind: outcome}}, {{kind: length, weight: 0.2, schedule: {{from: 0.25}}}}, {toggle}]"
    # Right is an answer of an even length, so that an untrained model is right in half of the cases.
    recipe = {"name": "any", "command": ["/usr/bin/python3", "-I", "-S", "${cwd}/examples/agents/tool_agent.py", "task.json"],
              "files": {"task.json": '{"prompt": ${json:task.prompt}}'}, "timeout_s": 60,
              "verifier": {"kind": "command", "command": ["sh", "-c", "test $(($(wc -c) % 2)) = 0"]}}
    settings = {**SHORT, "run.name": "composed", "rewards.terms": terms, "data.tasks": tasks, "agents.recipes": json.dumps([recipe])}
    process = ingot.start("train", settings)
    wait_until(lambda: ingot.rows("composed") >= 3, "third row", process)
    process.kill()
    process.wait()
    code, output = ingot.run("train", settings, ("--resume",))
    check(code == 0, output)
    rows = check_run(ingot, "composed", 8)
    check(all("reward/term/outcome" in row for row in rows), "a step lacks the term `outcome`")
    check("reward/term/length" not in rows[0], "the term `length` counts before its schedule begins")
    check("reward/term/length" in rows[-1], f"the last step lacks the term `length`: {sorted(rows[-1])}")

    returns = check_grades(ingot)
    check_regrade(ingot, rows, returns)
    check_exports(ingot)
    wrong = {**settings, "run.name": "wrong"}
    for bad, words in (("[{kind: lenght}]", "outcome | length"), ("[{kind: length, weight: 0}]", "nothing is rewarded"),
                       ("[{kind: outcome, schedule: {from: 2}}]", "from is 2")):
        code, output = ingot.run("train", {**wrong, "rewards.terms": bad}, timeout=30)
        check(code == 2 and words in output, f"{bad}: exit code {code}: {output}")


def check_grades(ingot):
    """Each group of a batch was rewarded before, once, by all terms. Returns the rewards of its samples by group."""
    rewarded, returns = set(), {}
    for record in ingot.journal("composed"):
        if "rewarded" in record:
            group = record["rewarded"].get("groupId", "0")
            check(group not in rewarded, f"group {group} is rewarded twice")
            rewarded.add(group)
            returns[group] = record["rewarded"]["returns"]
        for group in record.get("batch", {}).get("groupIds", ()):
            check(group in rewarded, f"group {group} is in a batch before its reward is in the journal")
    group = max(returns, key=int)  # admitted late: both terms count
    for sample, value in enumerate(returns[group]):
        episode = json.loads(ingot.inspect("composed", f"{group}/{sample}", "--json"))["episode"]
        parts = {term["term"]: term.get("weight", 0) * term.get("value", 0) for term in episode["grade"]["terms"]}
        check(set(parts) == {"outcome", "length", "toggle"}, parts)
        check(abs(sum(parts.values()) - value) < 1e-9, f"group {group}: {parts} and {value}")
        check(parts["outcome"] == episode.get("reward", 0), "the outcome was not kept beside the grade")
    check("term length = " in ingot.inspect("composed", f"{group}/0"), "inspect does not show the terms")
    return returns


def check_regrade(ingot, rows, returns):
    """The run's own terms give its rewards again; others say what they change."""
    def regrade(*overrides):
        sets = [word for override in overrides for word in ("--set", override)]
        done = ingot.call("regrade", f"{ingot.folder}/composed", "--json", *sets)
        check(done.returncode == 0, f"regrade failed: {done.stderr}")
        return json.loads(done.stdout)

    same = regrade()
    check(same["groups"] >= 16 and same["groups_that_change_sign"] == 0 and same["changed_groups"] == [], same)
    check(abs(same["reward"] - same["regraded"]) < 1e-9, f"the same terms give other rewards: {same}")
    check(same["terms"]["toggle"] < 0, f"no answer was beyond its budget: {same}")
    outcome = regrade("rewards.terms=[{kind: outcome}]")
    changed = outcome["changed_groups"]
    check(len(changed) == outcome["groups_that_change_sign"] and changed == sorted(set(changed)), outcome)
    check(sorted(sum((row["changed_groups"] for row in outcome["steps"]), [])) == changed, outcome)
    group = max(returns, key=int)
    posted = [json.loads(ingot.inspect("composed", f"{group}/{sample}", "--json"))["episode"].get("reward", 0)
              for sample in range(len(returns[group]))]
    signs = [[(value > mean + 1e-9) - (value < mean - 1e-9) for value in values]
             for values in (returns[group], posted) for mean in [sum(values) / len(values)]]
    check((int(group) in changed) == (signs[0] != signs[1]), f"group {group}: {returns[group]}, {posted}, {changed}")
    check(outcome["terms"] == {"outcome": outcome["regraded"]}, outcome)
    for step, row in enumerate(outcome["steps"]):
        check(abs(row["reward"] - rows[step]["reward/mean"]) < 1e-6, f"step {step}: {row} and {rows[step]['reward/mean']}")


def check_exports(ingot):
    """The run's own correct answers train the next one, as the ids that were sampled."""
    for kind, key in (("sft", "data.sft"), ("dpo", "data.dpo")):
        rows = f"{ingot.folder}/{kind}.jsonl"
        done = ingot.call("export", f"{ingot.folder}/composed", rows, "--as", kind, "--above", "-1")
        check(done.returncode == 0, f"export failed: {done.stdout}{done.stderr}")
        code, output = ingot.run("train", {**SHORT, "run.name": f"from-{kind}", "data.tasks": "", key: rows, "goal.first_steps": 0,
                                           **({"data.sft": ""} if kind == "dpo" else {})}, timeout=120)
        check(code == 0, f"{kind}: {output}")


def case_evaluate(ingot):
    """A checkpoint's evaluation has a folder of its own, with its result, and replaces nothing else."""
    folder = write_asking_config(ingot, agent_seconds=0)
    (folder / "eval.jsonl").write_text("{\"task_id\": \"a\"}\n{\"task_id\": \"b\"}\n")
    train = {"run.name": "t", "scheduler.total_steps": 2, "scheduler.drop_zero_variance": "false"}
    code, output = ingot.run("train", {**train, "trainer.checkpoint_every": 1, "trainer.keep_checkpoints": 5})
    check(code == 0, output)

    def evaluate(step, require=(), **more):
        settings = {"run.name": "t", "eval.tasks": folder / "eval.jsonl", "eval.avg_n": 3, **more}
        conditions = [word for one in require for word in ("--require", one)]
        return ingot.run(("eval", f"{folder}/t/checkpoints/step-{step:08d}/"), settings, conditions, timeout=100)

    for step in (1, 2, 1):
        code, output = evaluate(step, **{"trainer.memory_limit_mb": 1})  # an evaluation needs no memory for training
        check(code == 0 and "avg@3, 6 episodes" in output, f"{code}: {output}")
        mean, low, high = re.search(r"eval/reward_mean (\S+) .*\n95% interval over 2 tasks: (\S+) to (\S+)", output).groups()
        check(0 <= float(low) <= float(mean) <= float(high) <= 1, output)
    for step in (1, 2):
        result = json.loads((folder / f"t-eval/step-{step:08d}/evaluation.json").read_text())
        check(result["eval/episodes"] == 6 and result["checkpoint"].endswith(f"t/checkpoints/step-{step:08d}"), result)
        # Two tasks of three samples: pass@1 and pass@2, and pass@4 of none.
        check(0 <= result["eval/pass@1"] <= result["eval/pass@2"] <= 1 and "eval/pass@4" not in result, result)
        check(result["eval/reward_stderr"] >= 0 and result["eval/num_turns/mean"] >= 1, result)
        listed = ingot.inspect(f"t-eval/step-{step:08d}")
        check(listed.count(" eval ") == 6 and listed.count(" finished ") == 6, listed)
    # Step 1 against the evaluation of step 2, and against numbers. A malformed condition ends the command before the agents start.
    code, output = evaluate(1, ["reward_mean >= best - 1", "eval/num_turns/mean >= 1"])
    check(code == 0 and output.count("requirement met: ") == 2 and " of step-00000002" in output, f"{code}: {output}")
    code, output = evaluate(1, ["reward_mean >= best + 1.5", "reward_mean <= 1"])
    check(code == 1 and output.count("requirement NOT met: ") == 1 and output.count("requirement met: ") == 1, f"{code}: {output}")
    code, output = evaluate(1, ["reward_mean >= bests"])
    check(code == 2 and "'bests' is not a number" in output and "eval/reward_mean" not in output, f"{code}: {output}")
    # An agent's call of at most 4 tokens; the cap cuts it to 2.
    lengths = {}
    for cap in (0, 2):
        code, output = evaluate(1, **{"eval.max_new_tokens": cap})
        check(code == 0, f"{code}: {output}")
        result = json.loads((folder / "t-eval/step-00000001/evaluation.json").read_text())
        lengths[cap] = result["eval/response_length/mean"]
    check(lengths[2] <= 2 < lengths[0] <= 4 and result["eval/truncated_ratio"] > 0, f"{lengths}, {result}")
    code, output = ingot.run("train", {**train, "run.name": "u-eval", "scheduler.total_steps": 1})
    check(code == 0, output)
    code, output = evaluate(1, **{"run.name": "u"})
    check(code == 2 and "u-eval' contains a run" in output, f"{code}: {output}")
    check((folder / "u-eval/checkpoints/step-00000001/model.safetensors").exists(), "a run was removed")
    shutil.copytree(folder / "t/checkpoints/step-00000001", folder / "elsewhere/step-00000001")
    done = ingot.ask(("eval", f"{folder}/elsewhere/step-00000001"), {"run.name": "t", "eval.tasks": folder / "eval.jsonl"},
                     timeout=100)
    check(done.returncode == 2 and "the evaluation of another checkpoint" in done.stderr, done)


def case_scaffolds(ingot):
    """One command evaluates several scaffolds on several sets. Two checkpoints are compared by task."""
    folder = write_asking_config(ingot, agent_seconds=0)
    for name, ids in (("easy", "ab"), ("hard", "cde"), ("other", "xy")):
        (folder / f"{name}.jsonl").write_text("".join(f'{{"task_id": "{one}"}}\n' for one in ids))
    (folder / "none.jsonl").write_text("")
    code, output = ingot.run("train", {"run.name": "s", "scheduler.total_steps": 2, "scheduler.drop_zero_variance": "false",
                                       "trainer.checkpoint_every": 1, "trainer.keep_checkpoints": 5})
    check(code == 0, output)
    recipes = json.dumps([{"name": name, "domains": domains, "command": ["/usr/bin/python3", "-I", f"{folder}/agent.py"],
                           "verifier": {"kind": "numeric", "expected": "1"}} for name, domains in (("one", []), ("two", ["code"]))])

    def evaluate(step, *options, sets="{easy: %s/easy.jsonl, hard: %s/hard.jsonl}", **more):
        settings = {"run.name": "s", "agents.recipes": recipes, "eval.avg_n": 3, "eval.tasks": sets.replace("%s", str(folder)), **more}
        return ingot.ask(("eval", *options, f"{folder}/s/checkpoints/step-{step:08d}"), settings, timeout=200)

    both = ("--scaffold", "one", "--scaffold", "two")
    done = evaluate(1, *both, "--json", "--pass", "3", "--require", "pass@3@scaffold:two >= 0", "--require", "reward_mean <= 1")
    check(done.returncode == 0, done)
    result = json.loads(done.stdout)
    check([(row["scaffold"], row["set"], row["tasks"], row["samples"]) for row in result["rows"]] ==
          [(name, of, tasks, 3) for name in ("one", "two") for of, tasks in (("easy", 2), ("hard", 3), ("", 5))], result)
    check(all(set(row["pass"]) == {"1", "2", "3"} for row in result["rows"]), result)
    check([one["scaffold"] for one in result["requirements"]] == ["one", "two", "two"], result)
    for row in result["rows"]:
        figures = next(one["figures"] for one in result["evaluations"] if one["scaffold"] == row["scaffold"])
        suffix = f"@set:{row['set']}" if row["set"] else ""
        check(abs(figures["eval/reward_mean" + suffix] - row["avg"]["mean"]) < 1e-9, (row, figures))
    done = evaluate(2, *both)
    check(done.returncode == 0 and re.search(r"\ntwo +hard +3 +3 +0", done.stdout), done)
    evaluations = [f"{folder}/s-eval/step-0000000{step}@two" for step in (1, 2)]
    done = ingot.call("compare", *evaluations)
    check(done.returncode == 0 and re.search(r"p = \S+, 5 tasks: the difference (is real|may be chance)", done.stdout), done)
    compared = json.loads(ingot.call("compare", "--json", *evaluations).stdout)["runs"][1]
    check(compared["difference"]["tasks"] == 5 and set(compared["sets"]) == {"easy", "hard"}, compared)
    done = evaluate(2, **{"run.name": "others"}, sets="%s/other.jsonl")
    check(done.returncode == 0, done)
    done = ingot.call("compare", evaluations[0], f"{folder}/others-eval/step-00000002")
    check("not comparable: 5 and 2 tasks, of which 0 in common; evaluate both on the same eval.tasks" in done.stdout, done)
    for options, settings, message in (
            (("--scaffold", "twoo"), {}, "'twoo' is not a recipe in agents.recipes, which has one, two: did you mean two?"),
            (("--scaffold", "one", "--scaffold", "one"), {}, "names 'one' twice"),
            (("--pass", "4"), {}, "pass@4 needs at least 4 samples per task, and eval.avg_n is 3: set eval.avg_n=4"),
            (("--pass", "0"), {}, "pass@0 needs a positive number"),
            (("--require", "pass@8 > 0"), {}, "set eval.avg_n=8"),
            (("--require", "reward_mean@scaffold:two > 0"), {}, "add --scaffold two"),
            ((), {"sets": "{easy: %s/none.jsonl}"}, "none.jsonl")):
        done = evaluate(1, *options, **settings)
        check(done.returncode == 2 and message in done.stderr, f"{options}: {done}")


if __name__ == "__main__":
    main(case_smoke, case_seeds, case_speculation, case_supervised, case_rewards, case_evaluate, case_scaffolds)
