"""A server of PostgreSQL that a script starts, crashes and ends, and a standby of it that the script promotes."""
import glob
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from ingot_runs import skip


class PostgresServer:
    """A server with its files in a folder of its own, on a socket there. Without PostgreSQL the script ends as skipped."""

    programs = max(glob.glob("/usr/lib/postgresql/*/bin"), default=None)

    def __init__(self, primary=None):
        """`primary`: it becomes a synchronous standby of this server, which writes alone after a promotion."""
        if self.programs is None:
            skip("PostgreSQL is not installed: scripts/setup.sh services")
        self.folder = tempfile.mkdtemp(prefix="ingot-pg-")
        self.account = {"user": "postgres", "group": "postgres", "extra_groups": ()} if os.getuid() == 0 else {}
        if self.account:
            shutil.chown(self.folder, "postgres", "postgres")
        self.url = f"host={self.folder} user=ingot dbname=postgres"
        data = f"{self.folder}/data"
        if primary is None:
            self.program("initdb", "-D", data, "-U", "ingot", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C")
        else:
            self.program("pg_basebackup", "-d", f"{primary.url} application_name=standby", "-D", data, "-R", "-X", "stream",
                         "-c", "fast", "--no-sync")
        self.start()
        if primary is not None:
            primary.sql("alter system set synchronous_standby_names = 'standby'")
            primary.sql("select pg_reload_conf()")
            while primary.sql("select count(*) from pg_stat_replication where sync_state = 'sync'") != "1":
                time.sleep(0.05)

    def program(self, name, *words):
        done = subprocess.run([f"{self.programs}/{name}", *words], check=True, capture_output=True, text=True, **self.account)
        return done.stdout.strip()

    def sql(self, statement):
        return self.program("psql", "-qtAX", "-d", self.url, "-c", statement)

    def promote(self):
        self.program("pg_ctl", "-D", f"{self.folder}/data", "-w", "promote")

    def signal(self, number):
        """To the server and all its sessions: SIGSTOP and SIGCONT pause it."""
        postmaster = pathlib.Path(f"{self.folder}/data/postmaster.pid").read_text().split()[0]
        children = subprocess.run(["pgrep", "-P", postmaster], capture_output=True, text=True).stdout.split()
        for process in (postmaster, *children):
            try:
                os.kill(int(process), number)
            except ProcessLookupError:
                pass  # a session that ended meanwhile

    def replace_by(self, standby, pause):
        """This server is paused for `pause` seconds, the standby is promoted meanwhile, and nobody fences this one: it says
        that it writes, as before."""
        self.signal(signal.SIGSTOP)
        time.sleep(pause / 2)
        standby.promote()
        time.sleep(pause / 2)
        self.signal(signal.SIGCONT)

    def settings(self):
        """Those of a run whose pool is here."""
        return {"datapool.backend": "postgres", "datapool.postgres.allow_single": "true", "datapool.postgres.url": self.url}

    def start(self):
        command = [f"{self.programs}/pg_ctl", "-D", f"{self.folder}/data", "-l", f"{self.folder}/log", "-w",
                   "-o", f"-k {self.folder} -c listen_addresses=", "start"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **self.account)

    def crash(self):
        subprocess.run([f"{self.programs}/pg_ctl", "-D", f"{self.folder}/data", "-m", "immediate", "stop"], check=False,
                       stdout=subprocess.DEVNULL, **self.account)

    def close(self):
        self.crash()
        shutil.rmtree(self.folder, ignore_errors=True)
