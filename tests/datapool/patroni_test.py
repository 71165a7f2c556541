#!/usr/bin/env python3
"""The pool in PostgreSQL under Patroni in strict synchronous mode: patroni_test.py WRITER.

Three members and one etcd on this machine, loopback alone. WRITER (failover_writer.cc) appends calls from several threads
and prints each acknowledgement. Two faults come while it writes:

  death            the primary and its Patroni are killed (SIGKILL); a standby is promoted
  death and pause  the asynchronous member stops receiving WAL, the synchronous one is paused, the primary is killed. No
                   member may be promoted before the paused one goes on: the third lacks acknowledged records.

Then every acknowledged append is read back and compared. Ends with 77 if a server is not installed (scripts/setup.sh
services). Not tested: several machines, a network between them, loss of power.
"""
import glob
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from free_ports import free_port  # noqa: E402

PROGRAMS = max(glob.glob("/usr/lib/postgresql/*/bin"), default=None)

PATRONI = """
scope: pool
name: p{i}
restapi: {{listen: "127.0.0.1:{rest}", connect_address: "127.0.0.1:{rest}"}}
etcd3: {{hosts: "127.0.0.1:{etcd}"}}
bootstrap:
  dcs:
    ttl: 6
    loop_wait: 1
    retry_timeout: 3
    maximum_lag_on_failover: 1048576
    synchronous_mode: true
    synchronous_mode_strict: true
    synchronous_node_count: 1
    postgresql:
      use_pg_rewind: true
      parameters: {{synchronous_commit: "on", wal_log_hints: "on"}}
  initdb: [data-checksums, {{encoding: UTF8}}, {{locale: C}}]
  pg_hba: ["local all all trust", "host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"]
postgresql:
  listen: "127.0.0.1:{port}"
  connect_address: "127.0.0.1:{port}"
  data_dir: {folder}/data{i}
  bin_dir: {programs}
  pgpass: {folder}/pgpass{i}
  authentication:
    superuser: {{username: postgres, password: x}}
    replication: {{username: replicator, password: x}}
    rewind: {{username: rewinder, password: x}}
  parameters: {{unix_socket_directories: "{folder}", max_connections: 50}}
"""


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def wait_until(condition, what, seconds=90):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.2)
    raise AssertionError(f"not within {seconds} s: {what}")



def tree(pid):
    """The process and all below it."""
    found = [pid]
    for child in subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split():
        found += tree(int(child))
    return found


def command_line(pid):
    """Empty if the process, such as a worker of autovacuum, has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


class Member:
    def __init__(self, cluster, i):
        self.cluster, self.i, self.name = cluster, i, f"p{i}"
        self.port, self.rest = free_port(), free_port()
        self.process = None
        self.config = f"{cluster.folder}/p{i}.yml"
        pathlib.Path(self.config).write_text(PATRONI.format(
            i=i, rest=self.rest, port=self.port, etcd=cluster.etcd_port, folder=cluster.folder, programs=PROGRAMS))

    def start(self):
        log = open(f"{self.cluster.folder}/p{self.i}.log", "ab")
        self.process = subprocess.Popen(["/usr/bin/patroni", self.config], stdout=log, stderr=log, cwd=self.cluster.folder,
                                        start_new_session=True, **self.cluster.account)

    def postmaster(self):
        try:
            lines = pathlib.Path(f"{self.cluster.folder}/data{self.i}/postmaster.pid").read_text().split()
            os.kill(int(lines[0]), 0)
            return int(lines[0])
        except (OSError, ValueError, IndexError):
            return None

    def signal(self, number):
        """To Patroni, to the server and to all of its backends."""
        pids = tree(self.process.pid) if self.process.poll() is None else []
        if self.postmaster() is not None:
            pids += tree(self.postmaster())
        for pid in dict.fromkeys(pids):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def sql(self, statement):
        """The answer's first column; None = no answer."""
        done = subprocess.run([f"{PROGRAMS}/psql", "-qtAX", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres",
                               "-c", statement, "postgres"], capture_output=True, text=True, timeout=20,
                              env={**os.environ, "PGCONNECT_TIMEOUT": "3", "PGPASSWORD": "x"})
        return done.stdout.strip() if done.returncode == 0 else None


class Cluster:
    def __init__(self, folder):
        self.folder = folder
        self.account = {"user": "postgres", "group": "postgres", "extra_groups": ()} if os.getuid() == 0 else {}
        if self.account:
            shutil.chown(folder, "postgres", "postgres")
        self.etcd_port, peer = free_port(), free_port()
        self.etcd = subprocess.Popen(
            ["etcd", "--name", "e", "--data-dir", f"{folder}/etcd", "--listen-client-urls",
             f"http://127.0.0.1:{self.etcd_port}", "--advertise-client-urls", f"http://127.0.0.1:{self.etcd_port}",
             "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
             "--initial-cluster", f"e=http://127.0.0.1:{peer}"],
            stdout=open(f"{folder}/etcd.log", "wb"), stderr=subprocess.STDOUT, **self.account)
        self.members = [Member(self, i) for i in range(3)]

    def start(self):
        self.members[0].start()
        wait_until(lambda: self.leader() is not None, "a first primary")
        for member in self.members[1:]:
            member.start()
        self.wait_whole()
        self.leader().sql("create role ingot superuser login")

    def leader(self):
        """The member that writes; None = no member does."""
        for member in self.members:
            if member.postmaster() is not None and member.sql("select pg_is_in_recovery()") == "f":
                return member
        return None

    def wait_whole(self):
        """One primary, one synchronous standby and one asynchronous."""
        def states():
            leader = self.leader()
            rows = leader.sql("select sync_state from pg_stat_replication where state = 'streaming'") if leader else None
            return sorted((rows or "").split())
        wait_until(lambda: states() == ["async", "sync"], "two streaming standbys", 120)

    def standby(self, state):
        name = self.leader().sql(f"select application_name from pg_stat_replication where sync_state = '{state}'")
        return next(member for member in self.members if member.name == name)

    def url(self):
        hosts = ",".join("127.0.0.1" for _ in self.members)
        ports = ",".join(str(member.port) for member in self.members)
        return f"host={hosts} port={ports} user=ingot dbname=postgres connect_timeout=2"

    def close(self):
        for member in self.members:
            if member.process is not None:
                member.signal(signal.SIGCONT)
                member.signal(signal.SIGKILL)
                member.process.wait()
        self.etcd.kill()
        self.etcd.wait()


class Writer:
    """Appends of the program in the background, its acknowledgements in a file."""

    def __init__(self, program, cluster, folder, name):
        self.program, self.pool, self.name = program, f"{folder}/{name}", name
        self.url = cluster.url()
        self.acks = f"{folder}/{name}.acks"
        self.log = open(f"{folder}/{name}.log", "wb")
        self.process = subprocess.Popen([program, "write", self.url, self.pool, name], stdout=open(self.acks, "wb"),
                                        stderr=self.log)

    def count(self):
        return pathlib.Path(self.acks).read_bytes().count(b"\n")

    def wait_more(self, more, seconds=90):
        check(self.process.poll() is None, f"the writer ended: {pathlib.Path(self.log.name).read_text()[-2000:]}")
        have = self.count()
        wait_until(lambda: self.count() >= have + more, f"{more} appends more than {have}", seconds)

    def finish(self):
        """Ends the writer and reads back all that it was told; returns (acknowledged, longest gap in seconds)."""
        self.process.send_signal(signal.SIGTERM)
        check(self.process.wait(timeout=60) == 0, f"the writer: {pathlib.Path(self.log.name).read_text()[-2000:]}")
        gap = float(re.search(r"longest gap ([0-9.]+) s", pathlib.Path(self.log.name).read_text()).group(1))
        with open(self.acks, "rb") as acks:
            done = subprocess.run([self.program, "verify", self.url, self.pool, self.name], stdin=acks,
                                  capture_output=True, text=True, timeout=300)
        check(done.returncode == 0, f"{self.name}: {done.stdout}{done.stderr}"[-3000:])
        print(f"{self.name}: {done.stdout.strip()}; longest gap {gap:.1f} s", flush=True)
        return self.count(), gap


def revive(cluster, member):
    member.process.wait()
    member.start()
    cluster.wait_whole()


def death(cluster, program, folder):
    writer = Writer(program, cluster, folder, "death")
    for _ in range(2):
        writer.wait_more(300)
        dead = cluster.leader()
        dead.signal(signal.SIGKILL)
        writer.wait_more(300)
        check(cluster.leader() is not dead, "the dead member is the primary")
        revive(cluster, dead)
    writer.finish()


def death_and_pause(cluster, program, folder):
    writer = Writer(program, cluster, folder, "death_and_pause")
    writer.wait_more(200)
    primary, paused, stale = cluster.leader(), cluster.standby("sync"), cluster.standby("async")
    stale.sql("alter system set primary_conninfo = ''")
    stale.sql("select pg_reload_conf()")
    receivers = [pid for pid in tree(stale.postmaster()) if b"walreceiver" in command_line(pid)]
    for pid in receivers:
        os.kill(pid, signal.SIGSTOP)
    writer.wait_more(200)  # acknowledged by `paused`, and not on `stale`
    paused.signal(signal.SIGSTOP)
    primary.signal(signal.SIGKILL)
    primary.process.wait()
    before = writer.count()
    for _ in range(12):
        time.sleep(1)
        check(stale.sql("select pg_is_in_recovery()") != "f", "a member without acknowledged records was promoted")
    check(writer.count() <= before + 1, "an append was acknowledged without a standby")
    paused.signal(signal.SIGCONT)
    for pid in receivers:
        os.kill(pid, signal.SIGCONT)
    stale.sql("alter system reset primary_conninfo")
    stale.sql("select pg_reload_conf()")
    writer.wait_more(200)
    check(cluster.leader() is paused, f"{cluster.leader().name} was promoted instead of {paused.name}")
    revive(cluster, primary)
    writer.finish()


def main():
    if PROGRAMS is None or not all(map(shutil.which, ("etcd", "patroni"))):
        print("SKIPPED: PostgreSQL, Patroni or etcd is not installed: scripts/setup.sh services")
        return 77
    with tempfile.TemporaryDirectory(prefix="ingot-patroni-") as folder:
        cluster_folder = f"{folder}/cluster"
        os.mkdir(cluster_folder, 0o755)
        os.chmod(folder, 0o755)
        cluster = Cluster(cluster_folder)
        try:
            cluster.start()
            death(cluster, sys.argv[1], folder)
            death_and_pause(cluster, sys.argv[1], folder)
        except BaseException:
            for log in sorted(pathlib.Path(cluster_folder).glob("*.log")):
                print(f"---- {log.name}\n{log.read_text(errors='replace')[-2500:]}", flush=True)
            raise
        finally:
            cluster.close()
    print("patroni: passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
