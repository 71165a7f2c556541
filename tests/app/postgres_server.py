"""A server of PostgreSQL that a script starts, crashes and ends."""
import glob
import os
import shutil
import subprocess
import tempfile


class PostgresServer:
    """A server with its files in a folder of its own, on a socket there."""

    programs = max(glob.glob("/usr/lib/postgresql/*/bin"), default=None)

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="ingot-pg-")
        self.account = {"user": "postgres", "group": "postgres", "extra_groups": ()} if os.getuid() == 0 else {}
        if self.account:
            shutil.chown(self.folder, "postgres", "postgres")
        subprocess.run([f"{self.programs}/initdb", "-D", f"{self.folder}/data", "-U", "ingot", "--auth=trust", "--no-sync",
                        "--encoding=UTF8", "--locale=C"], check=True, capture_output=True, **self.account)
        self.start()

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
