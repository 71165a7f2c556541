#!/usr/bin/env python3
"""Runs the ingot binary on a posed Slurm cluster, four nodes on this machine: slurm_tests.py BINARY SOURCE_DIR CASE.

Cases: slurm (a run on three nodes, of which one dies, that was launched twice), slurm_stop (a job that is told to stop drains, and goes on later),
slurm_limit (so does one that comes to its time limit), slurm_mixed (groups with options of their own: a heterogeneous job,
of which a node dies), slurm_plain (a Slurm that takes no heterogeneous jobs, or refuses one), slurm_smoke (the whole smoke run, on four
nodes of three kinds).
Exits with 0 if every check holds, and with 77 where Slurm is not installed or this user is not root.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from ingot_runs import SHORT, Ingot, check, check_run, skip, wait_for_rows, wait_until, write_secret

NODES = 4
CONF = """ClusterName=posed
SlurmctldHost=localhost
SlurmctldPort={controller}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/log/controller.log
SlurmdLogFile={folder}/log/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SlurmdTimeout=20
KillWait=10
SchedulerType={scheduler}
SchedulerParameters=bf_interval=1,sched_interval=1
NodeName=node[1-{nodes}] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=8 RealMemory=4000
PartitionName=all Nodes=node[1-{nodes}] Default=YES MaxTime=INFINITE State=UP
"""


def missing():
    """Why no cluster can be posed here; empty = it can."""
    for program in ("munged", "slurmctld", "slurmd", "sbatch"):
        if shutil.which(program) is None:
            return f"no {program} here: `scripts/setup.sh services` installs it"
    return "" if os.getuid() == 0 else "only root can pose a Slurm cluster"


def consecutive_ports(count):
    """The first of so many free ports in a row."""
    for first in range(20011, 60000, 97):
        try:
            for port in range(first, first + count):
                with socket.socket() as one:
                    one.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
    check(False, "no free ports in a row")


class Cluster:
    """Slurm's daemons. They end with `close`."""

    def __init__(self, folder, scheduler="sched/backfill"):
        self.folder, self.daemons, self.nodes = pathlib.Path(folder), [], {}
        self.folder.chmod(0o755)
        for name in ("state", "spool", "log"):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        shutil.chown(key, "munge", "munge")
        (self.folder / "munge").mkdir(mode=0o755)
        shutil.chown(self.folder / "munge", "munge")
        munge = self.folder / "munge"
        self.spawn("setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "munged", "--foreground", "--force",
                   f"--key-file={key}", f"--socket={munge}/socket", f"--pid-file={munge}/pid", f"--log-file={munge}/log",
                   f"--seed-file={munge}/seed")
        wait_until((munge / "socket").exists, "munge's socket", seconds=120)
        first = consecutive_ports(NODES + 1)
        conf = self.folder / "slurm.conf"
        conf.write_text(CONF.format(controller=first, folder=folder, nodes=NODES, first=first + 1, last=first + NODES,
                                    scheduler=scheduler))
        os.environ["SLURM_CONF"] = str(conf)
        self.spawn("slurmctld", "-D", "-c", "-f", str(conf))
        for i in range(1, NODES + 1):
            self.nodes[f"node{i}"] = self.spawn("slurmd", "-D", "-N", f"node{i}", "-f", str(conf))
        wait_until(lambda: self.ask("sinfo", "-h", "-t", "idle", "-o", "%D") == str(NODES), "idle nodes", seconds=180)

    def spawn(self, *argv):
        log = open(self.folder / "log" / "daemons", "ab")
        self.daemons.append(subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        return self.daemons[-1]

    def ask(self, *argv):
        return subprocess.run(argv, capture_output=True, text=True, timeout=60).stdout.strip()

    def agents(self, node):
        """The process ids of the node agents that run on `node` of this cluster."""
        found, wanted = [], {f"SLURMD_NODENAME={node}".encode(), f"SLURM_CONF={self.folder}/slurm.conf".encode()}
        for entry in pathlib.Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if entry.name.isdigit() and b"node" in words[1:2] and b"--group" in words:
                    if wanted <= set((entry / "environ").read_bytes().split(b"\0")):
                        found.append(int(entry.name))
            except OSError:
                pass
        return found

    def kill_node(self, node):
        """As the death of a machine: its daemon, the steps' daemons and every process of theirs."""
        agents = self.agents(node)
        steps = [int(pathlib.Path(f"/proc/{agent}/stat").read_text().rsplit(")", 1)[1].split()[1]) for agent in agents]
        self.nodes[node].kill()
        for pid in steps + agents:
            os.kill(pid, signal.SIGKILL)

    def close(self):
        self.ask("scancel", "--me")
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in reversed(self.daemons):
            try:
                daemon.wait(timeout=20)
            except subprocess.TimeoutExpired:
                daemon.kill()


def settings(ingot, name):
    groups = [{"name": "engines", "nodes": 2, "roles": ["rollout"]},
              {"name": "control", "roles": ["datapool", "scheduler", "gateway", "trainer", "agents"]}]
    return {**SHORT, "run.name": name, "scheduler.total_steps": 12, "cluster.launcher": "slurm",
            "cluster.rollout_engines": 2, "cluster.groups": json.dumps(groups), "cluster.token_file": write_secret(ingot, "token"),
            "cluster.slurm": "['--time=01:00:00']", "cluster.host": "auto", "cluster.tls.allow_plaintext": "true"}


def output_of(ingot, name):
    log = pathlib.Path(ingot.folder) / name / "logs" / "slurm.log"
    return log.read_text() if log.exists() else ""


def kill_engines(cluster):
    """Kills one of the two nodes with engines."""
    victims = [node for node in cluster.nodes if any(
        b"engines" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in cluster.agents(node))]
    check(len(victims) == 2, f"nodes with engines: {victims}")
    cluster.kill_node(victims[-1])


def check_second_launch(ingot, cluster, own, launch):
    """While a job waits in the queue the terminal and `ingot status` say why, and a second launch changes nothing."""
    wait_until(lambda: "JobHeldUser" in cluster.ask("squeue", "--noheader", "--format=%r"), "a job in the queue", launch)
    folder = pathlib.Path(ingot.folder) / own["run.name"]
    before = [((folder / name).stat().st_ino, (folder / name).read_text()) for name in ("config.yaml", "launch.sbatch")]
    (job,) = cluster.ask("squeue", "--noheader", "--format=%i").split()
    waits = f"job {job} is PENDING (JobHeldUser)"
    code, output = ingot.run("launch", own | {"run.seed": 2}, timeout=60)
    check(code == 1 and output.count("\n") == 1 and f"'{own['run.name']}' is already launched: {waits}" in output
          and f"`scancel {job}`" in output, f"a second launch: {code}: {output}")
    check(before == [((folder / name).stat().st_ino, (folder / name).read_text())
                     for name in ("config.yaml", "launch.sbatch")], "a second launch changed the run's files")
    check(cluster.ask("squeue", "--noheader", "--format=%i") == job, "a second job was submitted")
    code, output = ingot.run("status", own, timeout=60)
    check(code == 1 and waits in output, f"ingot status: {code}: {output}")
    check(any(waits in line for line in launch.stdout), "the launcher does not say why its job waits")
    cluster.ask("scontrol", "release", job)


def check_prefixes(ingot, name, nodes):
    """Every line of the nodes' agents has the number of its task, the run's and its node's name before it."""
    lines = [line for line in output_of(ingot, name).splitlines() if f"[{name} " in line]
    heads = [re.match(rf"(\d+): \[{name} (\S+)\] \S", line) for line in lines]
    check(all(heads), f"lines without a prefix: {[line for line, head in zip(lines, heads) if not head]}")
    check({head[2] for head in heads} == set(nodes), f"nodes in the log: {sorted({head[2] for head in heads})}")
    # The tasks of each group have numbers from 0 on.
    check(all(head[1] == head[2].rpartition("-")[2] for head in heads), f"numbers of tasks: {lines}")


def case_slurm(ingot, cluster):
    """A run on three nodes trains all its steps, though it waits in the queue first, is launched a second time meanwhile,
    and a node with an engine dies in its middle."""
    steps = 24  # a node dies long before the last one
    own = settings(ingot, "job") | {"scheduler.total_steps": steps, "cluster.slurm": "['--time=01:00:00', '--hold']"}
    plan = ingot.run("launch", own, ("--dry-run",), timeout=60)
    check(plan[0] == 0 and plan[1].startswith("#!/bin/bash") and not (pathlib.Path(ingot.folder) / "job").exists(),
          f"the plan: {plan}")
    launch = ingot.start("launch", own)
    check_second_launch(ingot, cluster, own, launch)
    wait_for_rows(ingot, launch, "job", 3)
    status = ingot.ask("status", own)
    check(status.returncode == 0 and [line.split()[0] for line in status.stdout.splitlines()] ==
          ["datapool", "scheduler", "rollout-0", "rollout-1", "gateway", "engines-0", "engines-1", "control-0"], f"ingot status: {status}")
    kill_engines(cluster)
    output, _ = launch.communicate(timeout=400)
    check(launch.returncode == 0, f"exit code {launch.returncode}: {output}\n{output_of(ingot, 'job')}")
    check_run(ingot, "job", steps)
    check_prefixes(ingot, "job", ("engines-0", "engines-1", "control-0"))
    check("Node failure" in output_of(ingot, "job"), output_of(ingot, "job"))
    pages = re.findall(r"^\d+: \[job (\S+)\] page http", output_of(ingot, "job"), re.MULTILINE)
    check(pages == ["control-0"], f"nodes that serve a page: {pages}")


def case_slurm_stop(ingot, cluster):
    """SIGTERM to the launcher stops the job in order, with a checkpoint; a later launch goes on."""
    own = settings(ingot, "stopped") | {"scheduler.total_steps": 1000}
    launch = ingot.start("launch", own)
    wait_for_rows(ingot, launch, "stopped", 3)
    launch.send_signal(signal.SIGTERM)
    output, _ = launch.communicate(timeout=400)
    check(launch.returncode == 130 and "in order" in output, f"exit code {launch.returncode}: {output}")
    steps = ingot.rows("stopped") + 4
    code, output = ingot.run("launch", own | {"scheduler.total_steps": steps}, ("--resume",), timeout=400)
    check(code == 0, f"exit code {code}: {output}\n{output_of(ingot, 'stopped')}")
    check_run(ingot, "stopped", steps)


def case_slurm_limit(ingot, cluster):
    """A job that comes to its time limit saves and ends in order before it; a later launch goes on."""
    own = settings(ingot, "limited") | {"scheduler.total_steps": 5000, "cluster.slurm": "['--time=00:02:00']",
                                        "cluster.trainer_stop_s": 20}
    launch = ingot.start("launch", own)
    wait_for_rows(ingot, launch, "limited", 1)
    output, _ = launch.communicate(timeout=300)
    said = output_of(ingot, "limited")
    check(launch.returncode == 130, f"exit code {launch.returncode}: {output}\n{said}")
    check("TIMEOUT" not in output and "DUE TO TIME LIMIT" not in said, f"Slurm ended the job itself: {output}\n{said}")
    check("stopping all roles in order" in said, said)
    rows = ingot.rows("limited")
    steps = rows + 4
    code, output = ingot.run("launch", own | {"scheduler.total_steps": steps, "cluster.slurm": "['--time=01:00:00']"},
                             ("--resume",), timeout=400)
    check(code == 0, f"exit code {code}: {output}\n{output_of(ingot, 'limited')}")
    check_run(ingot, "limited", steps)


def mixed(ingot, name):
    groups = json.loads(settings(ingot, name)["cluster.groups"])
    groups[0]["slurm"], groups[1]["resources"] = ["--mem=500"], {"memory": "1500Mi", "cpu": "2"}
    return settings(ingot, name) | {"cluster.groups": json.dumps(groups)}


def case_slurm_mixed(ingot, cluster):
    """Groups with options of their own are parts of one heterogeneous job. A node dies: Slurm starts the job again."""
    own = mixed(ingot, "mixed")
    launch = ingot.start("launch", own)
    wait_for_rows(ingot, launch, "mixed", 3)
    parts = sorted(line.split() for line in cluster.ask("squeue", "--noheader", "--me", "--format=%i %D %m").splitlines())
    check([part[0].partition("+")[2] for part in parts] == ["0", "1"], f"the job's parts: {parts}")
    check([part[1:] for part in parts] == [["2", "500M"], ["1", "1500M"]], f"the parts' nodes and memory: {parts}")
    kill_engines(cluster)
    output, _ = launch.communicate(timeout=500)
    check(launch.returncode == 0, f"exit code {launch.returncode}: {output}\n{output_of(ingot, 'mixed')}")
    check_run(ingot, "mixed", 12)


def case_slurm_smoke(ingot, cluster):
    """The smoke run as it is, with its goal, as a heterogeneous job: two nodes with engines, one with the trainer, and one
    with the other roles."""
    groups = [{"name": "engines", "nodes": 2, "roles": ["rollout"], "slurm": ["--mem=500"]},
              {"name": "control", "roles": ["datapool", "scheduler", "gateway", "agents"], "slurm": ["--mem=1000"]},
              {"name": "trainer", "roles": ["trainer"], "slurm": ["--mem=1500", "--cpus-per-task=2"]}]
    own = {key: value for key, value in settings(ingot, "smoke").items() if key.startswith(("run.", "cluster."))}
    own |= {"http.port": 0, "cluster.groups": json.dumps(groups)}
    started = time.time()
    launch = ingot.start("launch", own)
    wait_until(lambda: ingot.rows("smoke") >= 1, "row 1", launch, seconds=600)
    nodes = cluster.ask("squeue", "--noheader", "--me", "--format=%N").splitlines()
    names = cluster.ask("scontrol", "show", "hostnames", ",".join(nodes)).split()
    check(len(nodes) == 3 and sorted(names) == sorted(cluster.nodes), f"the nodes of the job's parts: {nodes}")
    output, _ = launch.communicate(timeout=3000)
    check(launch.returncode == 0, f"exit code {launch.returncode}: {output}\n{output_of(ingot, 'smoke')}")
    rows = check_run(ingot, "smoke", 40)
    check_prefixes(ingot, "smoke", ("engines-0", "engines-1", "control-0", "trainer-0"))
    evals = [row["eval/reward_mean"] for row in ingot.metrics("smoke") if "eval/reward_mean" in row]
    check(evals and evals[-1] > 0.7, f"held-out reward: {evals}")
    rewards = [row["reward/mean"] for row in rows]
    print(f"reward {sum(rewards[:2]) / 2:.3f} in the first two steps, {sum(rewards[-5:]) / 5:.3f} in the last five; "
          f"held out {evals[-1]:.3f}; {time.time() - started:.0f} s")


def check_rejected(ingot):
    """Slurm refuses a job that was to replace a run: the run is as it was."""
    run = pathlib.Path(ingot.folder) / "kept"
    run.mkdir()
    for name in ("config.yaml", "metrics.jsonl"):
        (run / name).write_text(f"{name} of the old run")
    own = settings(ingot, "kept") | {"run.if_exists": "replace", "cluster.slurm": "['--partition=none']"}
    code, output = ingot.run("launch", own, timeout=60)
    check(code == 1 and "nvalid partition" in output and f"{run} is as it was" in output, f"{code}: {output}")
    files = {path.name: path.read_text() for path in run.rglob("*") if path.is_file() and not path.name.endswith("lock")}
    check(files == {name: f"{name} of the old run" for name in ("config.yaml", "metrics.jsonl")}, f"files of the run: {files}")


def case_slurm_plain(ingot, cluster):
    """A Slurm that takes no heterogeneous jobs: one error, and nothing is started or written."""
    code, output = ingot.run("launch", mixed(ingot, "plain"), timeout=60)
    check(code == 1 and "does not accept heterogeneous jobs" in output and "cluster.slurm" in output, f"{code}: {output}")
    check(not (pathlib.Path(ingot.folder) / "plain").exists(), "a run folder was made")
    check(cluster.ask("squeue", "--noheader") == "", "a job was submitted")
    check_rejected(ingot)


def main():
    binary, source, case = sys.argv[1:4]
    reason = missing()
    if reason:
        skip(reason)
    with tempfile.TemporaryDirectory(prefix="ingot-test-") as folder:
        os.chmod(folder, 0o755)  # munge runs as a user of its own
        (pathlib.Path(folder) / "slurm").mkdir()
        cluster = None
        try:
            # Heterogeneous jobs need Slurm's backfill scheduler.
            cluster = Cluster(f"{folder}/slurm", "sched/builtin" if case == "slurm_plain" else "sched/backfill")
            globals()[f"case_{case}"](Ingot(binary, source, folder), cluster)
        finally:
            if cluster is not None:
                cluster.close()
    print(f"{case}: passed")


if __name__ == "__main__":
    main()
