#!/usr/bin/env python3
"""Runs a verifiers environment on the episodes of a run: one long-lived process, many episodes at a time.

    bridge.py tasks TASKSET [--set KEY=VALUE ...] > tasks.jsonl      the taskset's tasks, for `data.tasks`
    bridge.py run TASKSET URL [--concurrency N] [--set KEY=VALUE ...]
    bridge.py episode TASKSET --index I [--set KEY=VALUE ...]        one rollout, as the agent of a recipe, in its sandbox

TASKSET is an installed package of verifiers 0.4 (or a module on PYTHONPATH); URL is the address that a run without
`agents.recipes` prints. Each episode that the run opens is one rollout of the environment. Its model calls go to the
episode's own address, and its reward, the reward's parts, and the environment's metrics are posted when it ends. A
rollout that the environment could not run ends as infrastructure_failed, and one that its agent broke ends as failed.
Both are retried. The bridge ends when the run has no more episodes.

As a recipe's agent (examples/verifiers/sandbox.yaml), the bridge calls the model at OPENAI_BASE_URL, and its last line
is {"reward": .., "signals": {..}}, for the verifier `agent_reported`. If the rollout fails, the exit code is 1. In this
case, each episode imports the environment again, which takes seconds.

Every --set changes the environment's configuration, such as `agent.harness.id=bash` or `taskset.num_tasks=100`; values
are parsed as JSON if possible. By default, the harness is `null`, a chat with the task's own tools, and its programs
run as processes next to the bridge. With `run`, that is outside the run's sandboxes. Harnesses fetch their packages
with uv, which must be on the PATH. A sandbox has no network, so UV_DEFAULT_INDEX and UV_FIND_LINKS must name a folder
with the packages there.
"""
import argparse
import asyncio
import itertools
import json
import logging
import os
import sys
import time
import uuid

import httpx
import verifiers.v1 as vf

# Errors of the task's own machinery. Every other error is the agent's or the model's.
OF_THE_ENVIRONMENT = {"SandboxError", "TaskError", "EnvError", "ToolsetError", "InterceptionError", "TunnelError"}
MAX_SIGNALS = 200  # of a report


class RunIsOver(Exception):
    """The run opens no more episodes."""


def configured(taskset, settings):
    """The environment with the settings, each "a.b.c=VALUE"."""
    raw = {"taskset": {"id": taskset},
           "agent": {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}}
    for setting in settings:
        path, _, text = setting.partition("=")
        *folders, name = path.split(".")
        place = raw
        for folder in folders:
            place = place.setdefault(folder, {})
        try:
            place[name] = json.loads(text)
        except ValueError:
            place[name] = text
    return vf.load_environment(vf.resolve_env_config(raw))


def tasks_of(environment, most):
    if not environment.taskset.bounded and most is None:
        raise SystemExit("the taskset has no end: --most N takes its first N tasks")
    return list(itertools.islice(environment.taskset, most))


def print_tasks(environment, taskset, most):
    for index, task in enumerate(tasks_of(environment, most)):
        name = task.data.id or task.data.name or f"{taskset}-{index}"
        print(json.dumps({"task_id": name, "domain": taskset, "index": index, "prompt": task.data.prompt_text}))


class Gateway:
    """The episodes of a run, over HTTP."""

    def __init__(self, url, scaffold, wait_s, admin_key):
        self.http = httpx.AsyncClient(base_url=url, timeout=60, headers=bearer(admin_key))
        self.scaffold, self.wait_s = scaffold, wait_s
        self.last_answer = time.monotonic()

    async def post(self, path, body, headers):
        """The answer. Retries for `wait_s` seconds if the gateway does not answer."""
        while True:
            try:
                answer = await self.http.post(path, json=body, headers=headers)
            except httpx.TransportError as error:
                if time.monotonic() - self.last_answer > self.wait_s:
                    raise RunIsOver(f"no answer for {self.wait_s} s: {error!r}") from None
                await asyncio.sleep(0.5)
                continue
            self.last_answer = time.monotonic()
            if answer.status_code not in (429, 503):
                return answer
            await asyncio.sleep(float(answer.headers.get("retry-after", 1)))

    async def open(self):
        answer = await self.post("/ingot/v1/episodes", {"scaffold": self.scaffold},
                                 {"Idempotency-Key": uuid.uuid4().hex})
        if answer.status_code == 410:
            raise RunIsOver("the run has made its last batch")
        answer.raise_for_status()
        return answer.json()

    async def tell(self, episode, what, body):
        """Posts a reward or an end. A rejection concerns only this episode: its sample is retried."""
        answer = await self.post(f"/ingot/v1/episodes/{episode['episode_id']}/{what}", body,
                                 bearer(episode["api_key"]))
        if answer.is_error:
            logging.warning("%s of episode %s: %s", what, episode["episode_id"], answer.text)
        return not answer.is_error


def bearer(key):
    return {"Authorization": "Bearer " + key} if key else {}


def report_of(finished):
    """Reward and signals of a finished episode: the sum of its rewards, over its agents, and each part by name."""
    signals = {"verifiers/turns": finished.num_turns}
    for trace in finished.traces:
        seat = f"{trace.agent.name}/" if len(finished.traces) > 1 else ""
        for name, reward in trace.rewards.items():
            if reward is not None:
                signals[f"verifiers/reward/{seat}{name}"] = reward.value
        for name, metric in trace.metrics.items():
            if metric is not None:
                signals[f"verifiers/{seat}{name}"] = float(metric)
    reward = sum(trace.reward for trace in finished.traces)
    return {"reward": reward, "signals": dict(itertools.islice(signals.items(), MAX_SIGNALS))}


def failure_of(finished):
    """The first error of an episode that is not ok."""
    errors = [*finished.errors, *(error for trace in finished.traces for error in trace.errors)]
    name, message = (errors[0].type, errors[0].message) if errors else ("EnvError", "the episode is not ok")
    status = "infrastructure_failed" if name in OF_THE_ENVIRONMENT else "failed"
    return {"status": status, "cause": "verifiers", "detail": f"{name}: {message}"[:2000]}


async def run_episode(environment, tasks, gateway, episode):
    key = "INGOT_EPISODE_" + episode["episode_id"]  # verifiers takes keys only from variables
    os.environ[key] = episode["api_key"]
    try:
        task = tasks[episode["task"]["payload"]["index"]]
        client = vf.EvalClientConfig(base_url=episode["base_url"], api_key_var=key)
        finished = await environment.run_slot(environment.slots(task)[0], vf.ModelContext(model="ingot", client=client))
    except Exception as error:  # concerns only this episode, whatever the environment's code raises
        logging.exception("episode %s", episode["episode_id"])
        await gateway.tell(episode, "end", {"status": "infrastructure_failed", "cause": "verifiers",
                                            "detail": f"{type(error).__name__}: {error}"[:2000]})
        return False
    finally:
        del os.environ[key]
    if not finished.ok:
        await gateway.tell(episode, "end", failure_of(finished))
        return False
    if not await gateway.tell(episode, "reward", report_of(finished)):
        return False
    return await gateway.tell(episode, "end", {"status": "finished"})


async def run_alone(environment, task):
    client = vf.EvalClientConfig(base_url=os.environ["OPENAI_BASE_URL"], api_key_var="OPENAI_API_KEY")
    async with environment.serving():
        finished = await environment.run_slot(environment.slots(task)[0], vf.ModelContext(model="ingot", client=client))
    if not finished.ok:
        print(failure_of(finished)["detail"], file=sys.stderr)
        return 1
    print(json.dumps(report_of(finished)), flush=True)
    return 0


async def run(environment, tasks, gateway, concurrency):
    counts = {True: 0, False: 0}

    async def work():
        while True:
            counts[await run_episode(environment, tasks, gateway, await gateway.open())] += 1

    async with environment.serving():
        workers = [asyncio.create_task(work()) for _ in range(concurrency)]
        try:
            await asyncio.gather(*workers)
        except RunIsOver as end:
            logging.info("%s", end)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
    print(f"bridge: {counts[True]} episodes finished, {counts[False]} failed", flush=True)
    return 0 if counts[True] else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mode", choices=["tasks", "run", "episode"])
    parser.add_argument("taskset")
    parser.add_argument("url", nargs="?", default="", help="run: the gateway's address, such as http://127.0.0.1:8080")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--most", type=int, help="the first so many tasks")
    parser.add_argument("--index", type=int, default=0, help="episode: the task's index")
    parser.add_argument("--concurrency", type=int, default=8, help="run: episodes at a time")
    parser.add_argument("--wait", type=float, default=60, help="run: seconds without an answer until it gives up")
    parser.add_argument("--admin-key-file", help="run: gateway.admin_key_file, if the run has one")
    options = parser.parse_intermixed_args()
    logging.basicConfig(level=logging.INFO, format="bridge: %(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    environment = configured(options.taskset, options.set)
    if options.mode == "tasks":
        return print_tasks(environment, options.taskset, options.most)
    if options.mode == "episode":
        return asyncio.run(run_alone(environment, tasks_of(environment, options.index + 1)[options.index]))
    if not options.url:
        parser.error("run needs the gateway's address")
    admin_key = ""
    if options.admin_key_file:
        with open(options.admin_key_file, encoding="utf-8") as file:
            admin_key = file.read().strip()
    gateway = Gateway(options.url, f"verifiers/{options.taskset}", options.wait, admin_key)
    return asyncio.run(run(environment, tasks_of(environment, options.most), gateway, options.concurrency))


if __name__ == "__main__":
    sys.exit(main())
