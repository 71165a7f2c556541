"""Machines that a fault test poses on this one: network namespaces behind a bridge, with three servers of PostgreSQL and three
members of etcd. It must run as root in a network and a mount namespace of its own (unshare --net --mount).

  10.99.0.1 ... machine-1 ─┐
  10.99.0.2 ... machine-2 ─┼─ bridge, 10.99.0.254: the script itself
  ...                      ─┘
"""
import contextlib
import glob
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from ingot_runs import check, wait_until

PROGRAMS = max(glob.glob("/usr/lib/postgresql/*/bin"), default=None)
PAUSED = 4  # seconds for which a primary is paused while another server is promoted


def command(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    check(done.returncode == 0, f"{' '.join(map(str, words))}: {done.stderr}")
    return done.stdout.strip()


def address(number):
    return f"10.99.0.{number}"


class Network:
    """Raises CalledProcessError where the machine grants no namespaces. They end with the script's own."""

    def __init__(self, machines):
        subprocess.run(["mkdir", "-p", "/run/netns"], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run/netns"], check=True, capture_output=True)
        for words in (("link", "set", "lo", "up"), ("link", "add", "br0", "type", "bridge"),
                      ("addr", "add", f"{address(254)}/24", "dev", "br0"), ("link", "set", "br0", "up")):
            subprocess.run(["ip", *words], check=True, capture_output=True)
        for number in machines:
            name = f"machine-{number}"
            command("ip", "netns", "add", name)
            command("ip", "link", "add", f"out{number}", "type", "veth", "peer", "name", "eth0", "netns", name)
            command("ip", "link", "set", f"out{number}", "master", "br0", "up")
            for words in (("link", "set", "lo", "up"), ("addr", "add", f"{address(number)}/24", "dev", "eth0"),
                          ("link", "set", "eth0", "up")):
                command("ip", "-n", name, *words)

    @staticmethod
    def on(number):
        """The words before a command that runs on the machine."""
        return ["ip", "netns", "exec", f"machine-{number}"]

    @contextlib.contextmanager
    def cut(self, number):
        """Meanwhile no packet reaches the machine or leaves it."""
        command("ip", "link", "set", f"out{number}", "down")
        try:
            yield
        finally:
            command("ip", "link", "set", f"out{number}", "up")


class Etcd:
    """Three members, on the machines of these numbers."""

    def __init__(self, numbers):
        self.folder, self.numbers, self.processes = tempfile.mkdtemp(prefix="ingot-etcd-"), numbers, {}
        for number in numbers:
            self.start(number)

    def endpoints(self):
        return [f"{address(number)}:2379" for number in self.numbers]

    def start(self, number):
        here, log = address(number), open(f"{self.folder}/{number}.log", "ab")
        cluster = ",".join(f"m{other}=http://{address(other)}:2380" for other in self.numbers)
        self.processes[number] = subprocess.Popen(
            [*Network.on(number), "setpriv", "--pdeathsig=KILL", "etcd", "--name", f"m{number}", "--data-dir", f"{self.folder}/{number}",
             "--listen-client-urls", f"http://{here}:2379", "--advertise-client-urls", f"http://{here}:2379",
             "--listen-peer-urls", f"http://{here}:2380", "--initial-advertise-peer-urls", f"http://{here}:2380",
             "--initial-cluster", cluster], stdout=log, stderr=log)

    def leader(self):
        """The machine whose member leads; None while none does."""
        for number in self.numbers:
            ask = urllib.request.Request(f"http://{address(number)}:2379/v3/maintenance/status", b"{}")
            try:
                with urllib.request.urlopen(ask, timeout=2) as answer:
                    said = json.load(answer)
            except (OSError, ValueError, urllib.error.URLError):
                continue
            if said.get("leader", "0") == said["header"]["member_id"]:
                return number
        return None

    def wait(self):
        wait_until(lambda: self.leader() is not None, "leader of etcd", seconds=120)

    def kill(self, number):
        self.processes[number].kill()
        self.processes[number].wait()

    def close(self):
        for number in self.numbers:
            self.kill(number)
        shutil.rmtree(self.folder, ignore_errors=True)


class Postgres:
    """A primary and two standbys, one of which has each commit on its disk before it is acknowledged. The script is the failover
    manager: it takes both standbys away from a primary before it promotes the one that is farther."""

    def __init__(self, numbers):
        self.folder, self.numbers, self.processes = tempfile.mkdtemp(prefix="ingot-pg-"), numbers, {}
        shutil.chown(self.folder, "postgres", "postgres")
        self.primary = numbers[0]
        self.program(self.primary, "initdb", "-D", self.data(self.primary), "-U", "ingot", "--auth=trust", "--no-sync",
                     "--encoding=UTF8", "--locale=C")
        with open(f"{self.data(self.primary)}/pg_hba.conf", "a", encoding="utf-8") as file:
            file.write("host all all 10.99.0.0/24 trust\nhost replication all 10.99.0.0/24 trust\n")
        with open(f"{self.data(self.primary)}/postgresql.conf", "a", encoding="utf-8") as file:
            file.write("wal_keep_size = 256MB\nwal_retrieve_retry_interval = 500ms\nshared_buffers = 32MB\n")
        self.start(self.primary)
        for number in numbers[1:]:
            self.clone(number)
        # The setting lies in a file that a clone of any of them has too.
        for number in numbers:
            self.sql(number, "alter system set synchronous_standby_names = 'ANY 1 (*)'")
            self.sql(number, "select pg_reload_conf()")
        self.wait_whole()

    def url(self):
        return f"host={','.join(map(address, self.numbers))} user=ingot dbname=postgres"

    def data(self, number):
        return f"{self.folder}/{number}"

    @staticmethod
    def argv(number, name, *words):
        return [*Network.on(number), "setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=QUIT",
                f"{PROGRAMS}/{name}", *words]

    def program(self, number, name, *words):
        return command(*self.argv(number, name, *words))

    def sql(self, number, statement):
        return self.program(number, "psql", "-qtAX", "-d", self.server(number), "-c", statement)

    @staticmethod
    def server(number):
        return f"host={address(number)} user=ingot dbname=postgres connect_timeout=5"

    def start(self, number):
        log = open(f"{self.folder}/{number}.log", "ab")
        self.processes[number] = subprocess.Popen(
            self.argv(number, "postgres", "-D", self.data(number), "-c", "unix_socket_directories=", "-c", f"listen_addresses={address(number)}"),
            stdout=log, stderr=log)
        ready = self.argv(number, "pg_isready", "-q", "-h", address(number))
        wait_until(lambda: subprocess.run(ready).returncode == 0, f"PostgreSQL on machine {number}", seconds=60)

    def clone(self, number):
        """Makes the machine's server a standby of the primary, whatever it was."""
        shutil.rmtree(self.data(number), ignore_errors=True)
        self.program(number, "pg_basebackup", "-d", f"{self.server(self.primary)} application_name=machine-{number}", "-D",
                     self.data(number), "-R", "-X", "stream", "-c", "fast", "--no-sync")
        self.start(number)

    def signal(self, number, what):
        """To the server and all its sessions."""
        postmaster = self.processes[number].pid
        children = subprocess.run(["pgrep", "-P", str(postmaster)], capture_output=True, text=True).stdout.split()
        for process in (postmaster, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, what)

    def kill(self, number):
        self.signal(number, signal.SIGKILL)
        self.processes[number].wait()

    def wait_whole(self):
        standbys = "select count(*) from pg_stat_replication where state = 'streaming' and sync_state = 'quorum'"
        wait_until(lambda: self.sql(self.primary, standbys) == "2", "two streaming standbys", seconds=120)

    def promote(self):
        """Takes the standbys away from the primary, promotes the farther one and gives it the other."""
        standbys = [number for number in self.numbers if number != self.primary]
        own = {number: self.sql(number, "show primary_conninfo") for number in standbys}
        for number in standbys:
            self.sql(number, "alter system set primary_conninfo = ''")
            self.sql(number, "select pg_reload_conf()")
            wait_until(lambda: self.sql(number, "select count(*) from pg_stat_wal_receiver") == "0", "end of a WAL receiver", seconds=60)
        received = "select pg_wal_lsn_diff(greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()), '0/0')"
        chosen = max(standbys, key=lambda number: int(self.sql(number, received)))
        old, self.primary = self.primary, chosen
        self.sql(chosen, "select pg_promote()")
        other = next(number for number in standbys if number != chosen)
        follow = own[other].replace(address(old), address(chosen)).replace("'", "''")
        self.sql(other, f"alter system set primary_conninfo = '{follow}'")
        self.sql(other, "select pg_reload_conf()")
        return old

    def lose_primary(self):
        """The primary dies, and comes back as a standby of the promoted server."""
        self.kill(self.primary)
        old = self.promote()
        self.clone(old)
        self.wait_whole()

    def return_unfenced(self, seconds):
        """The primary is paused, replaced meanwhile, and comes back as a primary for a while."""
        self.signal(self.primary, signal.SIGSTOP)
        time.sleep(PAUSED / 2)
        old = self.promote()
        time.sleep(PAUSED / 2)
        self.signal(old, signal.SIGCONT)
        time.sleep(seconds)
        check(self.sql(old, "select pg_is_in_recovery()") == "f", "the old primary did not come back as a primary")
        self.kill(old)
        self.clone(old)
        self.wait_whole()

    def close(self):
        for number in self.numbers:
            if number in self.processes:
                self.signal(number, signal.SIGCONT)
                self.kill(number)
        shutil.rmtree(self.folder, ignore_errors=True)
