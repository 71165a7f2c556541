#!/usr/bin/env python3
"""Runs the ingot binary as several nodes of this machine: nodes_tests.py BINARY SOURCE_DIR CASE.

Cases: nodes (a node with reward stage, scheduler and gateway dies, and its roles move; the trainer's ranks are on two nodes; the
node that drives the run serves its page and feeds its logger), nodes_logger (so does a node that is stopped and started again),
nodes_engines (a node with an engine dies, and another one runs its engine), nodes_back (a node whose roles moved comes back, after the
driving node was killed too), nodes_pools (two nodes serve one pool in PostgreSQL; each dies, and one comes back; a standby is
promoted, and the old primary comes back too), mutual_tls (roles that show each other
certificates train a run).
"""
import collections
import http.server
import json
import os
import pathlib
import re
import subprocess
import threading
import time

from ingot_runs import GROUPS, SHORT, check, check_run, end, main, status, wait_for_rows, wait_until, write_secret
from page_tests import Page
from postgres_server import PostgresServer


def settings(ingot, name, groups, **more):
    return {**SHORT, "run.name": name, "scheduler.total_steps": 12, "cluster.groups": json.dumps(groups),
            "cluster.token_file": write_secret(ingot, "token"), "gateway.admin_key_file": write_secret(ingot, "admin"),
            "cluster.registry.ttl_s": 2, "cluster.takeover_s": 2, **more}


def start_node(ingot, own, group, node=0):
    with open(f"{ingot.folder}/{group}-{node}.out", "w", encoding="utf-8") as output:
        return ingot.start("node", own, ("--group", group, "--node", str(node)), output)


def output_of(ingot, group, node=0):
    return pathlib.Path(f"{ingot.folder}/{group}-{node}.out").read_text(encoding="utf-8")


def wait_with(ingot, driver, group, condition, what):
    """As wait_until. If the run ends before, with its `driver`, the output of the first node of `group` tells why."""
    wait_until(lambda: condition() or driver.poll() is not None, what)
    check(driver.poll() is None, output_of(ingot, group))


class Trackio:
    """A server that takes the rows of a run as Trackio does."""

    def __enter__(self):
        self.steps = []
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # noqa: N802
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                owner.steps += [log["step"] for log in body["logs"] if "reward/mean" in log["metrics"]]
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()

    def check_rows(self, ingot, name):
        """Every row of the run's record came, and came once."""
        rows = [row["step"] for row in ingot.metrics(name) if "reward/mean" in row]
        check(collections.Counter(self.steps) == collections.Counter(rows), f"the logger got {self.steps} of {rows}")


def page_of(ingot, name, group):
    """The page that the first node of `group` serves."""
    link = re.search(rf"^\[{name} {group}-0\] page (http\S+)$", output_of(ingot, group), re.MULTILINE)
    check(link, f"no link to a page: {output_of(ingot, group)}")
    return Page(link[1]).open()


# The reward stage as a role of its own.
JUDGED = {"cluster.rewards_role": "true", "rewards.terms": "[{kind: outcome}, {kind: length, weight: 0.2}]"}


def case_nodes(ingot):
    groups = [{"name": "trainers", "nodes": 2, "roles": ["trainer"]},
              {"name": "front", "roles": ["rewards", "scheduler", "gateway"]},
              {"name": "rest", "roles": ["datapool", "rollout", "agents"]}]
    steps = 20  # a node dies long before the last one
    own = settings(ingot, "spread", groups, **{"scheduler.total_steps": steps, "cluster.trainer_ranks": 2,
                                               "cluster.min_trainer_ranks": 2, **JUDGED})
    with Trackio() as logger:
        own["loggers.trackio.url"] = logger.url
        run_spread(ingot, own, steps)
        logger.check_rows(ingot, "spread")


def run_spread(ingot, own, steps):
    nodes = {}
    try:
        for group, node in (("trainers", 1), ("rest", 0), ("front", 0), ("trainers", 0)):
            nodes[group, node] = start_node(ingot, own, group, node)
        driver = nodes["trainers", 0]
        wait_with(ingot, driver, "trainers", lambda: ingot.rows("spread") >= 3, "row 3")
        page = page_of(ingot, "spread", "trainers")  # its pool, scheduler and engine are on other nodes
        wait_until(lambda: page.json("/api/run")["engines"][0].get("sampled_tokens", 0) > 0, "the engine on the page", driver)
        check(page.json("/api/run")["live"] and page.json("/api/window")["next_group"] > 0, "the page has no groups")
        others = [output_of(ingot, "trainers", 1), output_of(ingot, "rest"), output_of(ingot, "front")]
        check(not any("page http" in output for output in others), f"a second page: {others}")
        code, lines = status(ingot, own)
        check(code == 0 and "rewards, scheduler, gateway" in lines["front-0"] and "trainer-1" in lines["trainers-1"],
              f"ingot status: {code} {lines}")
        probe = ingot.run("node", own, ("--group", "front", "--probe", "ready"), timeout=60)
        check(probe[0] == 0 and "gateway" in probe[1], f"the probe of a node that is well: {probe}")
        nodes["front", 0].kill()  # its roles die with it
        nodes["front", 0].wait()
        probe = ingot.run("node", own, ("--group", "front", "--probe", "alive"), timeout=60)
        check(probe[0] == 1, f"the probe of a node that is gone: {probe}")
        code = driver.wait(timeout=400)
        check(code == 0, f"exit code {code}: {output_of(ingot, 'trainers')}")
        said = output_of(ingot, "trainers")
        check(all(f"{role} is started here" in said for role in ("rewards", "scheduler", "gateway")), said)
        check_run(ingot, "spread", steps)
        check(nodes["trainers", 1].wait(timeout=180) == 0, output_of(ingot, "trainers", 1))
        nodes["rest", 0].terminate()
        check(nodes["rest", 0].wait(timeout=180) == 0 and f"the run 'spread' ended at step {steps} of {steps}" in
              output_of(ingot, "rest"), output_of(ingot, "rest"))
    finally:
        end(*nodes.values())


def case_nodes_logger(ingot):
    """A node that is stopped in order and started again sends its logger every row once."""
    ingot.configure("groups", GROUPS)
    groups = [{"name": "all", "roles": ["datapool", "scheduler", "rollout", "gateway", "trainer", "agents"]}]
    with Trackio() as logger:
        own = {"run.name": "told", "scheduler.total_steps": 1000, "cluster.groups": json.dumps(groups),
               "cluster.token_file": write_secret(ingot, "token"), "loggers.trackio.url": logger.url}
        node = start_node(ingot, own, "all")
        try:
            wait_until(lambda: len(logger.steps) >= 2, "two rows at the logger", node)
            link = ingot.call("view", f"{ingot.folder}/told").stdout
            check(Page(link.split("\n")[0]).open().json("/api/run")["live"], f"`ingot view` finds no page of the node: {link}")
            node.terminate()
            check(node.wait(timeout=180) == 130, "a stopped run ended well")
            said = re.search(r"stopped; saved \S.*; `(ingot node .*) --resume` continues", output_of(ingot, "all"))
            check(said and said[1].endswith(" --group all --node 0") and "run.name=told" in said[1], output_of(ingot, "all"))
            reported = ingot.ask("status", own).stderr
            check(f"`{said[1]} --resume` continues the run" in reported, reported)
            logger.check_rows(ingot, "told")
            steps = ingot.rows("told") + 3
            code, output = ingot.run("node", own | {"scheduler.total_steps": steps}, ("--group", "all", "--resume"), timeout=180)
            check(code == 0 and "page http" in output, f"exit code {code}: {output}")
            logger.check_rows(ingot, "told")
        finally:
            end(node)


def case_nodes_engines(ingot):
    groups = [{"name": "control", "roles": ["datapool", "scheduler", "gateway", "trainer", "agents"]},
              {"name": "engines", "nodes": 2, "roles": ["rollout"]}]
    own = settings(ingot, "moved", groups, **{"cluster.rollout_engines": 2, "cluster.takeover_engines": 1,
                                              "cluster.registry.ttl_s": 10,  # dead processes lose their leases at once
                                              "scheduler.total_steps": 30, "numerics": "exact"})
    nodes = {}
    try:
        for group, node in (("engines", 0), ("engines", 1), ("control", 0)):
            nodes[group, node] = start_node(ingot, own, group, node)
        driver = nodes["control", 0]
        wait_with(ingot, driver, "control", lambda: ingot.rows("moved") >= 3, "row 3")
        nodes["engines", 1].kill()  # its engine dies with it
        nodes["engines", 1].wait()

        def moved():
            lines = status(ingot, own)[1]
            return "rollout-1" in lines.get("engines-0", "") and "tokens sampled" in lines.get("rollout-1", "")

        wait_with(ingot, driver, "engines", moved, "the engine at the other node")
        rows = ingot.rows("moved")
        nodes["engines", 1] = start_node(ingot, own, "engines", 1)
        code = nodes["engines", 1].wait(timeout=180)
        check(code != 0 and "other nodes have taken over all engines of node engines-1" in output_of(ingot, "engines", 1),
              f"the node that came back: {code} {output_of(ingot, 'engines', 1)}")
        code = driver.wait(timeout=400)
        check(code == 0, f"exit code {code}: {output_of(ingot, 'control')}")
        check("rollout-1 is started here" in output_of(ingot, "engines"), output_of(ingot, "engines"))
        check(rows < 30, "the run was over before its engine had moved")
        rows = check_run(ingot, "moved", 30)
        check(all(row["mismatch/logprob_abs_diff_max"] == 0 for row in rows), "rollout and trainer differ")
        trainer = (pathlib.Path(ingot.folder) / "moved/logs/trainer.log").read_text()
        check(trainer.count("engine rollout-1 is leased at version") >= 2, "the trainer did not lease the moved engine")
    finally:
        end(*nodes.values())


def case_nodes_back(ingot):
    groups = [{"name": "control", "roles": ["trainer"]}, {"name": "front", "roles": ["scheduler", "gateway"]},
              {"name": "rest", "roles": ["datapool", "rollout", "agents"]}]
    own = settings(ingot, "back", groups, **{"scheduler.total_steps": 40})
    nodes = {}
    try:
        for group in ("front", "rest", "control"):
            nodes[group] = start_node(ingot, own, group)
        wait_with(ingot, nodes["control"], "control", lambda: ingot.rows("back") >= 3, "row 3")
        nodes["front"].kill()
        nodes["front"].wait()
        wait_with(ingot, nodes["control"], "control", lambda: "gateway is started here" in output_of(ingot, "control"), "the move")
        rows = ingot.rows("back")
        wait_with(ingot, nodes["control"], "control", lambda: ingot.rows("back") >= rows + 3, "steps after the move")
        nodes["front"] = start_node(ingot, own, "front")
        code, said = nodes["front"].wait(timeout=60), output_of(ingot, "front")
        driver = rf"is another process's: process {nodes['control'].pid} on \S+; this node can start again once that process has ended"
        check(code == 1 and re.search(driver, said) and "{" not in said, f"the node that came back too early: {code} {said}")
        nodes["control"].kill()
        nodes["control"].wait()
        wait_until(lambda: "NOT REACHED" in status(ingot, own)[1].get("control-0", ""), "the end of the driving node")
        nodes["front"] = start_node(ingot, own, "front")
        wait_until(lambda: "scheduler, gateway" in status(ingot, own)[1].get("front-0", ""), "the roles at their node", nodes["front"])
        check(nodes["rest"].poll() is None, output_of(ingot, "rest"))
        with open(f"{ingot.folder}/control-0.out", "w", encoding="utf-8") as output:
            nodes["control"] = ingot.start("node", own, ("--group", "control", "--resume"), output)
        rows = ingot.rows("back")
        check(nodes["control"].wait(timeout=400) == 0 and "resuming from" in output_of(ingot, "control"), output_of(ingot, "control"))
        check(rows < 40 and "is started here" not in output_of(ingot, "control"), f"row {rows}: {output_of(ingot, 'control')}")
        check_run(ingot, "back", 40)
    finally:
        end(*nodes.values())


def case_nodes_pools(ingot):
    server = PostgresServer()
    standby = PostgresServer(server)
    groups = [{"name": "control", "roles": ["scheduler", "rollout", "gateway", "trainer", "agents"]},
              {"name": "pools", "nodes": 2, "roles": ["datapool"]}]
    own = settings(ingot, "pools", groups, **{
        "cluster.datapools": 2, "cluster.takeover_s": 0, "scheduler.total_steps": 60, **server.settings(),
        "datapool.postgres.url": f"host={server.folder},{standby.folder} user=ingot dbname=postgres"})
    nodes = {}

    def kill(node):
        nodes["pools", node].kill()  # its process of the pool dies with it
        nodes["pools", node].wait()
        rows = ingot.rows("pools")
        wait_with(ingot, driver, "control", lambda: ingot.rows("pools") >= rows + 3, f"steps without pools-{node}")
    try:
        for group, node in (("pools", 1), ("pools", 0), ("control", 0)):
            nodes[group, node] = start_node(ingot, own, group, node)
        driver = nodes["control", 0]
        wait_with(ingot, driver, "control", lambda: ingot.rows("pools") >= 2, "row 2")
        code, lines = status(ingot, own)
        check(code == 0 and "datapool" in lines["pools-0"] and "datapool-1" in lines["pools-1"]
              and {"datapool", "datapool-1"} <= set(lines), f"ingot status: {code} {lines}")
        before = ingot.journal("pools")
        kill(1)
        nodes["pools", 1] = start_node(ingot, own, "pools", 1)
        wait_until(lambda: "episodes" in status(ingot, own)[1].get("datapool-1", ""), "the node that came back", driver)
        # Both processes leave the old primary, whose rows are old from now on: it is first in the url and not fenced.
        rows, began = ingot.rows("pools"), time.monotonic()
        server.replace_by(standby, pause=4)
        wait_with(ingot, driver, "control", lambda: ingot.rows("pools") >= rows + 6, "steps over the promoted server")
        print(f"steps over the promoted server after {time.monotonic() - began:.1f} s, 4 s of them its pause")
        check(server.sql("select pg_is_in_recovery()") == "f", "the old primary still writes")
        kill(0)
        code = driver.wait(timeout=400)
        check(code == 0, f"exit code {code}: {output_of(ingot, 'control')}")
        check_run(ingot, "pools", 60)
        check(ingot.journal("pools")[:len(before)] == before, "the journal lost what it held")
    finally:
        end(*nodes.values())
        standby.close()
        server.close()


def openssl(folder, line):
    done = subprocess.run(["openssl", *line.split()], cwd=folder, capture_output=True, text=True, timeout=60)
    check(done.returncode == 0, f"openssl {line}: {done.stderr}")


def case_mutual_tls(ingot):
    folder = pathlib.Path(ingot.folder) / "tls"
    folder.mkdir()
    (folder / "san").write_text("subjectAltName=DNS:roles.ingot\n")
    ec = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
    openssl(folder, f"req -x509 {ec} -days 2 -subj /CN=ca -keyout ca.key -out ca.pem")
    openssl(folder, f"req {ec} -subj /CN=role -keyout role.key -out role.csr")
    openssl(folder, "x509 -req -in role.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile san -out role.pem")
    os.chmod(folder / "role.key", 0o600)
    own = {**SHORT, "run.name": "mutual", "scheduler.total_steps": 20, "cluster.token_file": write_secret(ingot, "token"),
           "cluster.tls.certificate": folder / "role.pem", "cluster.tls.key": folder / "role.key",
           "cluster.tls.ca": folder / "ca.pem", "cluster.tls.name": "roles.ingot", "cluster.tls.mutual": "true",
           **JUDGED}
    launch = ingot.start("launch", own)
    wait_for_rows(ingot, launch, "mutual", 2)
    code, lines = status(ingot, own)
    check(code == 0 and "groups scored" in lines["rewards"], f"ingot status with a certificate: {lines}")
    # The same token without a certificate of its own: every role refuses, and says why.
    code, lines = status(ingot, {**own, "cluster.tls.mutual": "false"})
    check(code == 1 and all("presents no certificate" in lines[role] for role in ("datapool", "rewards")), f"ingot status without a certificate: {lines}")
    output, _ = launch.communicate(timeout=300)
    check(launch.returncode == 0, f"exit code {launch.returncode}: {output}")
    check_run(ingot, "mutual", 20)


if __name__ == "__main__":
    main(case_nodes, case_nodes_logger, case_nodes_engines, case_nodes_back, case_nodes_pools, case_mutual_tls)
