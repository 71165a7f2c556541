#!/usr/bin/env python3
"""Takes from a launched run what is no role of it: outage_tests.py BINARY SOURCE_DIR CASE.

Cases: disk (the disk of the run's folder is full while roles are started again, each of which may be started again once),
database (every process of PostgreSQL is stopped by SIGSTOP). Terminal and `ingot status` name the role that waits, and for
what; the run goes on once it is there again. Prints after how many seconds each place named it. Exits with 77 where the
machine grants no disk of its own, or has no PostgreSQL.
"""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from ingot_runs import GROUPS, Ingot, check, role_process, skip, wait_until
from postgres_server import PostgresServer

OWN_MACHINE = "INGOT_OUTAGE_OWN_MACHINE"  # set in a process with mounts of its own


class Launch:
    """A launched run, whose output is in a folder of its own."""

    def __init__(self, ingot, notes, **own):
        self.ingot, self.terminal = ingot, pathlib.Path(notes) / "out"
        self.settings = {"run.name": "outage", "scheduler.total_steps": 100000, "scheduler.group_deadline_s": 3600,
                         "scheduler.max_attempts": 1000, "scheduler.max_infrastructure_failures": 100000,
                         "cluster.max_restarts": 1, "cluster.registry.ttl_s": 3600, **own}
        ingot.config = f"{notes}/outage.yaml"
        pathlib.Path(ingot.config).write_text(json.dumps(GROUPS))
        with open(self.terminal, "w", encoding="utf-8") as out:
            self.process = ingot.start("launch", self.settings, output=out)

    def await_rows(self, more):
        rows = self.ingot.rows("outage")
        wait_until(lambda: self.ingot.rows("outage") >= rows + more, f"{more} further steps: {self.said()[-3000:]}",
                   self.process)

    def said(self, since=0):
        return self.terminal.read_text(encoding="utf-8")[since:]

    def status(self):
        return self.ingot.ask("status", self.settings, timeout=None).stdout.splitlines()

    def await_words(self, role, words, since):
        """Returns once the terminal and the status name a role that waits with one of the words; and after how long each."""
        def reported(line, begin):
            return line.startswith(begin) and "waits for " in line and any(word in line for word in words)
        looks = {"terminal": lambda: any(reported(line, f"[outage] {role} ") for line in self.said(since).splitlines()),
                 "status": lambda: any(reported(line, role) for line in self.status())}
        took, began = {}, time.monotonic()
        while len(took) < len(looks):
            check(self.process.poll() is None, f"the run ended: {self.said()[-3000:]}")
            check(time.monotonic() - began < 300,
                  f"{role} is not named by {sorted(looks.keys() - took.keys())}: {self.said(since)[-3000:]} {self.status()}")
            for place in looks.keys() - took.keys():
                if looks[place]():
                    took[place] = time.monotonic() - began
            time.sleep(0.1)
        return took

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()


@contextlib.contextmanager
def full_disk(folder):
    """Meanwhile no byte is left in a folder."""
    filler = pathlib.Path(folder) / "filler"
    with open(filler, "wb", buffering=0) as file:
        for size in (1 << 20, 1 << 10):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))
    try:
        yield
    finally:
        filler.unlink()


def case_disk(binary, source, notes):
    if os.environ.get(OWN_MACHINE) is None:
        if os.getuid() != 0 or subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
            skip("only root can give the run a disk of its own, by a mount")
        os.environ[OWN_MACHINE] = "1"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])
    with tempfile.TemporaryDirectory(prefix="ingot-outage-disk-") as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", folder], check=True)
        launch = Launch(Ingot(binary, source, folder), notes)
        try:
            wait_until(lambda: launch.ingot.rows("outage") >= 2, "the first steps", launch.process)
            since = len(launch.said())
            with full_disk(folder):
                for role in ("gateway", "scheduler"):
                    os.kill(role_process(launch.process, role), signal.SIGKILL)
                    took = launch.await_words(role, ("No space left on device", f"the disk of {folder}"), since)
                    print(f"{role}: named after {took['terminal']:.1f} s on the terminal, {took['status']:.1f} s by "
                          f"ingot status", flush=True)
                    time.sleep(3)  # a role that ended would be started again by now, once too often
            launch.await_rows(3)
        finally:
            launch.end()
            subprocess.run(["umount", "--lazy", folder], check=False)


def case_database(binary, source, notes):
    server = PostgresServer()
    folder = tempfile.TemporaryDirectory(prefix="ingot-outage-database-")
    launch = Launch(Ingot(binary, source, folder.name), notes, **server.settings())
    stopped = []
    try:
        wait_until(lambda: launch.ingot.rows("outage") >= 2, "the first steps", launch.process)
        since = len(launch.said())
        master = int((pathlib.Path(server.folder) / "data/postmaster.pid").read_text().split()[0])
        children = subprocess.run(["pgrep", "-P", str(master)], capture_output=True, text=True).stdout.split()
        stopped = [master, *map(int, children)]
        for process in stopped:
            os.kill(process, signal.SIGSTOP)
        took = launch.await_words("datapool", ("PostgreSQL", "the pool's disk, or its database"), since)
        print(f"datapool: named after {took['terminal']:.1f} s on the terminal, {took['status']:.1f} s by ingot status")
        callers = [line for line in launch.status() if "waits for datapool (" in line]
        check(callers, f"nobody is said to wait for the pool: {launch.status()}")
        while stopped:
            os.kill(stopped.pop(), signal.SIGCONT)
        launch.await_rows(3)
        check("datapool waits for nothing now" in launch.said(since), launch.said(since)[-3000:])
    finally:
        for process in stopped:
            os.kill(process, signal.SIGCONT)
        launch.end()
        server.close()
        folder.cleanup()


def main():
    with tempfile.TemporaryDirectory(prefix="ingot-outage-notes-") as notes:
        {"disk": case_disk, "database": case_database}[sys.argv[3]](sys.argv[1], sys.argv[2], notes)


if __name__ == "__main__":
    main()
