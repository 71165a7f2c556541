"""A server of PostgreSQL that a script starts, crashes and ends."""
import glob
import os
import shutil
import subprocess
import tempfile

from ingot_runs import skip


class PostgresServer:
    """A server with its files in a folder of its own, on a socket there. Without PostgreSQL the script ends as skipped."""

    programs = max(glob.glob("/usr/lib/postgresql/*/bin"), default=None)

    def __init__(self):
        if self.programs is None:
            skip("PostgreSQL is not installed: scripts/setup.sh services")
        self.folder = tempfile.mkdtemp(prefix="ingot-pg-")
        self.account = {"user": "postgres", "group": "postgres", "extra_groups": ()} if os.getuid() == 0 else {}
        if self.account:
            shutil.chown(self.folder, "postgres", "postgres")
        subprocess.run([f"{self.programs}/initdb", "-D", f"{self.folder}/data", "-U", "ingot", "--auth=trust", "--no-sync",
                        "--encoding=UTF8", "--locale=C"], check=True, capture_output=True, **self.account)
        self.url = f"host={self.folder} user=ingot dbname=postgres"
        self.start()

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
