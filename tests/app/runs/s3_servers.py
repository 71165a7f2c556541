"""Servers that speak as S3 does, with the bucket `weights`, and files of credentials for them."""
import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess
import urllib.error
import urllib.request

from ingot_runs import wait_until

SECRET = "a-secret-that-nobody-may-see"


def write_credentials(path, key_id, secret):
    path.write_text(f"[default]\naws_access_key_id = {key_id}\naws_secret_access_key = {secret}\n")
    path.chmod(0o600)
    return path


class Moto:
    """A server that speaks as S3 does, with one bucket; `url` is empty if it is not installed. It checks that a request is
    signed, not by whom."""

    KEY_ID = "an-id"

    def __init__(self, source, folder):
        self.url, self.process = "", None
        program = pathlib.Path(source) / ".venv-services/bin/moto_server"
        if not program.exists():
            return
        log = pathlib.Path(folder) / "moto.log"
        with open(log, "w", encoding="utf-8") as output:
            self.process = subprocess.Popen([str(program), "-p", "0"], stdout=output, stderr=subprocess.STDOUT)
        running = re.compile(r"Running on (http://127.0.0.1:\d+)")
        wait_until(lambda: running.search(log.read_text()), "moto's port", self.process, 180)
        self.url = running.search(log.read_text())[1]
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/weights", method="PUT"), timeout=30).close()

    def settings(self):
        """Those of a run that stores here; its credentials go into this process's environment."""
        os.environ.update(AWS_ACCESS_KEY_ID=self.KEY_ID, AWS_SECRET_ACCESS_KEY=SECRET)
        return {"weights.s3.endpoint": self.url, "weights.s3.bucket": "weights"}

    def open(self, key):
        signed = {"Authorization": f"AWS4-HMAC-SHA256 Credential={self.KEY_ID}/20260101/us-east-1/s3/aws4_request, "
                                   "SignedHeaders=host, Signature=0"}
        request = urllib.request.Request(f"{self.url}/weights/{key}", headers=signed)
        return urllib.request.urlopen(request, timeout=30)

    def get(self, key):
        with self.open(key) as answer:
            return json.load(answer)

    def size(self, key):
        with self.open(key) as answer:
            return len(answer.read())

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class SeaweedFs:
    """A server of S3 that checks signatures, with the bucket `weights` and one key. None of it is there unless installed."""

    KEY_ID = "a-known-id"

    def __init__(self, source, folder):
        self.url, self.process = "", None
        program = pathlib.Path(source) / ".venv-services/bin/weed"
        if not program.exists():
            return
        folder = pathlib.Path(folder) / "seaweedfs"
        (folder / "data").mkdir(parents=True)
        (folder / "keys.json").write_text(json.dumps({"identities": [
            {"name": "anonymous", "actions": ["Admin"]},  # who does not sign may make the bucket
            {"name": "ingot", "credentials": [{"accessKey": self.KEY_ID, "secretKey": SECRET}],
             "actions": ["Admin", "Read", "List", "Write"]}]}))
        master, volume, filer, s3 = self.free_ports(4)
        options = [f"-dir={folder}/data", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-master.port={master}",
                   f"-volume.port={volume}", "-filer", f"-filer.port={filer}", "-s3", f"-s3.port={s3}",
                   f"-s3.config={folder}/keys.json", "-s3.port.iceberg=0", "-s3.port.lance=0",
                   "-master.volumeSizeLimitMB=64", "-volume.max=8"]
        with open(folder / "log", "w", encoding="utf-8") as output:
            self.process = subprocess.Popen([str(program), "server", *options], stdout=output, stderr=subprocess.STDOUT)
        self.url = f"http://127.0.0.1:{s3}"

        def has_bucket():
            try:
                urllib.request.urlopen(urllib.request.Request(f"{self.url}/weights", method="PUT"), timeout=30).close()
            except urllib.error.HTTPError as error:
                return error.code == 409  # made by a request whose answer was late
            except OSError:
                return False  # it does not listen yet
            return True
        wait_until(has_bucket, "SeaweedFS and its bucket", self.process, 120)

    @staticmethod
    def free_ports(count):
        """Below those that the system gives to whoever asks for any. Each server also takes the port that is 10000 higher,
        for gRPC."""
        found, port = [], 10000 + 61 * os.getpid() % 9000
        while len(found) < count:
            port += 1
            with contextlib.suppress(OSError), socket.socket() as one, socket.socket() as other:
                one.bind(("127.0.0.1", port))
                other.bind(("127.0.0.1", port + 10000))
                found.append(port)
        return found

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
