#!/usr/bin/env python3
"""Runs the ingot binary with roles that come, go and are paused: elastic_tests.py BINARY SOURCE_DIR CASE.

Cases: gateways (one of two is stopped in the middle of a stream; the episode goes on at the other one, and the first
writes nothing into it afterwards), engines (one joins a running job, takes calls and leaves; another one joins and is
killed), pools (of two processes that serve a pool in PostgreSQL one is killed, and then the other is stopped; nothing is
lost), slices (engines are killed while a client's stream in slices goes on), prefill (an engine computes prompts for two
others, which read them from a store, and one after the other is killed), pull (the same without a shared file system).
"""
import http.client
import json
import os
import pathlib
import re
import signal
import threading
import time

from ingot_runs import (GROUPS, SHORT, check, check_run, end, main, role_process, scrape, status, wait_for_rows, wait_until,
                        write_asking_config, write_secret)
from postgres_server import PostgresServer


def ask(port, path, body, key, timeout=120):
    """One POST; returns the status and the body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", "Authorization": "Bearer " + key})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def chat(port, episode, messages, timeout=120, **more):
    body = {"model": "policy", "max_tokens": 8, "messages": messages, **more}
    return ask(port, f"/s/{episode['episode_id']}/v1/chat/completions", body, episode["api_key"], timeout)


def reply_of(answer):
    check(answer[0] == 200, f"a call was answered with {answer}")
    return json.loads(answer[1])["choices"][0]["message"]


def case_gateways(ingot):
    ingot.configure("two", GROUPS)
    admin = write_secret(ingot, "admin")
    own = {"run.name": "two", "scheduler.total_steps": 30, "cluster.gateways": 2, "cluster.registry.ttl_s": 6,
           "scheduler.group_deadline_s": 600, "cluster.token_file": write_secret(ingot, "token"),
           "gateway.admin_key_file": admin}
    launch = ingot.start("launch", own)
    folder = pathlib.Path(ingot.folder) / "two"
    try:
        wait_for_rows(ingot, launch, "two", 2)
        code, lines = status(ingot, own)
        check(code == 0 and {"gateway", "gateway-1"} <= set(lines), f"ingot status: {code} {lines}")
        ports = [int((folder / f"{name}_port").read_text()) for name in ("gateway", "gateway-1")]
        episode = open_own_episode(ports[0], admin)
        load_balancer = int(re.search(r":(\d+)/", episode["base_url"]).group(1))
        check(load_balancer not in ports, f"agents are told {episode['base_url']}, and the gateways listen at {ports}")
        messages = [{"role": "user", "content": "which?"}]
        # Either gateway answers, and so does the load balancer.
        for port in (ports[1], load_balancer):
            messages += [reply_of(chat(port, episode, messages)), {"role": "user", "content": "and now?"}]

        # The engine is held until the gateway has passed the call on, so that it is stopped while it waits for ids.
        engine, first = role_process(launch, "rollout"), role_process(launch, "gateway")
        os.kill(engine, signal.SIGSTOP)
        cut = {}
        thread = threading.Thread(
            target=lambda: cut.update(answer=chat(ports[0], episode, messages, stream=True)), daemon=True)
        thread.start()
        time.sleep(3)  # less than a lease, and enough on a busy machine
        os.kill(first, signal.SIGSTOP)
        os.kill(engine, signal.SIGCONT)
        began = time.monotonic()
        messages.append(reply_of(chat(ports[1], episode, messages)))
        print(f"the other gateway answered after {time.monotonic() - began:.1f} s", flush=True)
        # The load balancer closes what it had open to the stopped one, and new connections go to the other.
        messages.append({"role": "user", "content": "once more?"})
        wait_until(lambda: "not registered" in status(ingot, own)[1].get("gateway", ""),
                   "the loss of the first gateway's lease", launch)
        reply = reply_of(chat(load_balancer, episode, messages))
        os.kill(first, signal.SIGCONT)
        thread.join(timeout=60)
        check(not thread.is_alive(), "the stopped gateway never ended its answer")
        code, text = cut["answer"]
        check(code != 200 or "[DONE]" not in text, f"the stopped gateway delivered its answer: {code} {text}")
        messages += [reply, {"role": "user", "content": "and you?"}]
        reply_of(chat(ports[0], episode, messages))  # it passes the call on by now
        code, text = ask(ports[0], f"/ingot/v1/episodes/{episode['episode_id']}/reward", {"reward": 1}, episode["api_key"])
        check(code == 200, f"reward: {code} {text}")
        code, text = ask(load_balancer, f"/ingot/v1/episodes/{episode['episode_id']}/end", {"status": "finished"}, episode["api_key"])
        check(code == 200, f"end: {code} {text}")
        tree = json.loads(ingot.inspect("two", episode["episode_id"], "--json"))
        calls = tree["calls"]
        check(len(calls) == 5, f"{len(calls)} calls are stored: {[call['callId'] for call in calls]}")
        check([call.get("parentCallId", "") for call in calls] == [""] + [call["callId"] for call in calls[:-1]],
              "each call continues the one before it")
        check(tree["episode"]["gateway"].startswith("gateway-1:") and tree["episode"]["gatewayToken"] == "2",
              f"the episode's gateway: {tree['episode'].get('gateway')} {tree['episode'].get('gatewayToken')}")
        check("continues on another gateway" in (folder / "logs/gateway.log").read_text(), "the first gateway was not told")
        launch.send_signal(signal.SIGTERM)
        output, _ = launch.communicate(timeout=120)
        check(launch.returncode in (0, 1, 130), f"exit code {launch.returncode}: {output}")
    finally:
        end(launch)


def case_engines(ingot):
    own = {**SHORT, "run.name": "elastic", "scheduler.total_steps": 60, "numerics": "exact", "cluster.registry.ttl_s": 2,
           "cluster.token_file": write_secret(ingot, "token"), "cluster.drain_s": 20}
    launch = ingot.start("launch", own)

    def join():
        with open(f"{ingot.folder}/engine.out", "a", encoding="utf-8") as output:
            return ingot.start("rollout", own, ("--engine", "7"), output)

    def sampled():
        """The tokens that the engine has sampled; None = it does not answer."""
        line = status(ingot, own)[1].get("rollout-7", "")
        found = re.search(r"version (\d+),.* (\d+) tokens sampled", line)
        return int(found.group(2)) if found else None

    engine = None
    try:
        wait_for_rows(ingot, launch, "elastic", 2)
        for ending in (signal.SIGTERM, signal.SIGKILL):
            engine = join()
            wait_until(lambda: sampled() or engine.poll() is not None, "calls at the engine that joined", launch)
            check(engine.poll() is None, (pathlib.Path(ingot.folder) / "engine.out").read_text())
            rows = ingot.rows("elastic")
            wait_until(lambda: ingot.rows("elastic") >= rows + 2, "steps with it", launch)
            engine.send_signal(ending)
            code = engine.wait(timeout=60)
            check(code == (0 if ending == signal.SIGTERM else -signal.SIGKILL), f"exit code {code} after {ending}")
            said = (pathlib.Path(ingot.folder) / "engine.out").read_text()
            check("calls are still run" not in said, f"the engine left calls behind: {said}")
            wait_until(lambda: ingot.rows("elastic") >= rows + 4, "steps without it", launch)
        output, _ = launch.communicate(timeout=300)
        check(launch.returncode == 0, f"exit code {launch.returncode}: {output}")
        rows = check_run(ingot, "elastic", 60)
        check(all(row["mismatch/logprob_abs_diff_max"] == 0 for row in rows), "rollout and trainer differ")
        trainer = (pathlib.Path(ingot.folder) / "elastic/logs/trainer.log").read_text()
        check(trainer.count("engine rollout-7 is leased at version") >= 2, "the trainer did not lease the engine twice")
    finally:
        end(engine, launch)


def check_prefill(ingot, name, store):
    own = {**SHORT, "run.name": name, "scheduler.total_steps": 40, "numerics": "exact", "cluster.rollout_engines": 3,
           "cluster.max_restarts": 100, "cluster.registry.ttl_s": 2, "cluster.token_file": write_secret(ingot, "token"),
           "rollout.kv_store.path": store, "rollout.kv_store.chunk_tokens": 16, "rollout.kv_store.retire_after_s": 5,
           "rollout.router.prefill_engines": 1, "rollout.router.prefill_min_tokens": 16,
           "rollout.router.prefill_wait_ms": 500}
    launch = ingot.start("launch", own)
    try:
        for kill in range(12):
            wait_for_rows(ingot, launch, name, 2 + kill)
            os.kill(role_process(launch, f"rollout-{kill % 3}"), signal.SIGKILL)
        output, _ = launch.communicate(timeout=600)
        check(launch.returncode == 0, f"exit code {launch.returncode}: {output}")
        rows = check_run(ingot, name, 40)
        check(all(row["mismatch/logprob_abs_diff_max"] == 0 for row in rows), "rollout and trainer differ")
        read = sum(row.get("kv_store/fetched_tokens", 0) for row in rows)
        check(read > 0, "no engine read what another one computed")
        check(sum(row.get("kv_store/corrupt", 0) for row in rows) == 0, "chunks with wrong bytes")
        print(f"{read:.0f} tokens read from {store}", flush=True)
    finally:
        end(launch)


def case_prefill(ingot):
    store = pathlib.Path(ingot.folder) / "kv"
    check_prefill(ingot, "prefill", store)
    files = [file for file in store.glob("tmp/*") if file.is_file()]
    check(len(files) <= 3, f"killed writers left {files}")  # their next start removes them


def case_pull(ingot):
    check_prefill(ingot, "pull", "memory://")


def case_pools(ingot):
    server = PostgresServer()
    try:
        own = {**SHORT, "run.name": "pools", "scheduler.total_steps": 30, "cluster.datapools": 2, "cluster.registry.ttl_s": 2,
               "cluster.token_file": write_secret(ingot, "token"), "numerics": "exact"}
        code, output = ingot.run("launch", own, timeout=60)
        check(code != 0 and "datapool.backend is rocksdb, which only one process can open" in output, f"two over RocksDB: {output}")
        check_pools(ingot, {**own, **server.settings()})
    finally:
        server.close()


def check_pools(ingot, own):
    launch = ingot.start("launch", own)
    try:
        wait_for_rows(ingot, launch, "pools", 2)
        code, lines = status(ingot, own)
        check(code == 0 and {"datapool", "datapool-1"} <= set(lines), f"ingot status: {code} {lines}")
        before = ingot.journal("pools")
        os.kill(role_process(launch, "datapool"), signal.SIGKILL)
        rows = ingot.rows("pools")
        wait_until(lambda: ingot.rows("pools") >= rows + 3, "steps after one died", launch)
        # The other one is stopped for longer than its lease: callers leave it, and its later answers reach nobody.
        paused = role_process(launch, "datapool-1")
        os.kill(paused, signal.SIGSTOP)
        rows = ingot.rows("pools")
        wait_until(lambda: ingot.rows("pools") >= rows + 3, "steps while the other one is stopped", launch)
        os.kill(paused, signal.SIGCONT)
        output, _ = launch.communicate(timeout=300)
        check(launch.returncode == 0, f"exit code {launch.returncode}: {output}")
        check("datapool started again" in output, output)
        rows = check_run(ingot, "pools", 30)
        check(all(row["mismatch/logprob_abs_diff_max"] == 0 for row in rows), "rollout and trainer differ")
        check(ingot.journal("pools")[:len(before)] == before, "the journal lost what it held")
        logs = [(pathlib.Path(ingot.folder) / f"pools/logs/{name}.log").read_text() for name in ("scheduler", "trainer", "gateway")]
        check(any("is gone; other processes take over" in log for log in logs), "nobody went on at another process of the pool")
    finally:
        end(launch)


def open_own_episode(port, admin):
    own_task = {"scaffold": "own", "task": {"task_id": "own", "domain": "test", "payload": {}}, "group": "own"}
    for _ in range(200):  # all slots of the window may be taken for a while
        code, text = ask(port, "/ingot/v1/episodes", own_task, admin.read_text().strip())
        if code != 429:
            break
        time.sleep(0.3)
    check(code == 201, f"opening: {code} {text}")
    return json.loads(text)


def stream_through(launch, port, episode, tokens, killed):
    """Checks a stream of so many tokens, in whose middle the engine `killed` is killed."""
    engine = role_process(launch, killed)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=240)
    body = {"model": "policy", "max_tokens": tokens, "ignore_eos": True, "stream": True,
            "stream_options": {"include_usage": True}, "messages": [{"role": "user", "content": "on and on"}]}
    connection.request("POST", f"/s/{episode['episode_id']}/v1/chat/completions", json.dumps(body),
                       {"Content-Type": "application/json", "Authorization": "Bearer " + episode["api_key"]})
    answer = connection.getresponse()
    check(answer.status == 200, f"the stream: {answer.status}")
    events = []
    for line in answer:
        if not line.startswith(b"data: {"):
            continue
        events.append(json.loads(line[6:]))
        check("error" not in events[-1], f"after {len(events)} events: {events[-1]}")
        if len(events) == 1:  # at once: an event may have many tokens
            os.kill(engine, signal.SIGKILL)
    check(len(events) > 1 and events[-1]["usage"]["completion_tokens"] == tokens, f"{len(events)} events, {events[-1]}")


def case_slices(ingot):
    """Calls in slices on two engines, of which one is killed while a client's stream goes on."""
    tokens, slice_tokens = 6000, 64  # so long that a kill meets the call
    admin = write_secret(ingot, "admin")
    write_asking_config(ingot, agent_seconds=0.05, sampling='"max_tokens": 70')
    own = {"run.name": "slices", "scheduler.total_steps": 400, "cluster.rollout_engines": 2, "cluster.registry.ttl_s": 2,
           "numerics": "exact", "model.context_length": 8192, "gateway.max_new_tokens": tokens, "rollout.max_tokens_per_turn_slice": slice_tokens,
           "cluster.token_file": write_secret(ingot, "token"), "cluster.max_restarts": 100, "gateway.admin_key_file": admin}
    launch = ingot.start("launch", own)
    folder = pathlib.Path(ingot.folder) / "slices"

    def resumed():
        return int(re.search(r"^ingot_gateway_resumed_calls_total (\d+)$", scrape(folder, "gateway"), re.M).group(1))

    try:
        wait_for_rows(ingot, launch, "slices", 2)
        port = int((folder / "gateway_port").read_text())
        episode = open_own_episode(port, admin)
        before, kills = resumed(), 0
        while resumed() == before and kills < 20:  # until the killed engine had this call or another one
            stream_through(launch, port, episode, tokens, ("rollout", "rollout-1")[kills % 2])
            kills += 1
            leases = 2 + kills
            wait_until(lambda: (folder / "logs/trainer.log").read_text().count("is leased at version") >= leases,
                       "the engine that was killed", launch)
        check(resumed() > before, "no kill met a call")
        print(f"{kills} kills, {resumed() - before} resumed calls", flush=True)
        ask(port, f"/ingot/v1/episodes/{episode['episode_id']}/reward", {"reward": 1}, episode["api_key"])
        code, text = ask(port, f"/ingot/v1/episodes/{episode['episode_id']}/end", {"status": "finished"}, episode["api_key"])
        check(code == 200, f"end: {code} {text}")
        calls = json.loads(ingot.inspect("slices", episode["episode_id"], "--json"))["calls"]
        check([call["finish"] for call in calls] == ["FINISH_LENGTH"] * kills, [call["finish"] for call in calls])
        check(all(len(call["sampledKeys"]) >= tokens // slice_tokens for call in calls), [len(call["sampledKeys"]) for call in calls])
        rows = ingot.metrics("slices")
        check(all(row["mismatch/logprob_abs_diff_max"] == 0 for row in rows), "rollout and trainer differ")
        check(all(row["agent/paused_ratio"] > 0 for row in rows), [row["agent/paused_ratio"] for row in rows])
        check(sum(row.get("rollout/paused_requests", 0) for row in rows) > 0, "no paused requests")
        launch.send_signal(signal.SIGTERM)
        output, _ = launch.communicate(timeout=120)
        check(launch.returncode in (0, 1, 130), f"exit code {launch.returncode}: {output}")
    finally:
        end(launch)


if __name__ == "__main__":
    main(case_gateways, case_engines, case_prefill, case_pull, case_pools, case_slices)
