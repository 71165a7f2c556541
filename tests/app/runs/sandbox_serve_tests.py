#!/usr/bin/env python3
"""`ingot sandbox serve` as a client on its machine meets it: sandbox_serve_tests.py BINARY SOURCE_DIR serve."""
import http.client
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from ingot_runs import check

RUN = json.dumps({"command": ["echo", "ran"]})


class Server:
    def __init__(self, binary, home, *words):
        environment = {name: text for name, text in os.environ.items() if name != "XDG_STATE_HOME"}
        self.process = subprocess.Popen(
            [binary, "sandbox", "serve", "--port", "0", "--require", "none", "--slots", "1", *words],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**environment, "HOME": str(home)})
        self.said, self.port = [], None
        for line in self.process.stdout:
            self.said.append(line)
            if "listening on http://127.0.0.1:" in line:
                self.port = int(line.rsplit(":", 1)[1])
                break

    def __enter__(self):
        check(self.port is not None, "".join(self.said))
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)

    def ask(self, **headers):
        """The status of a batch."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        client.request("POST", "/ingot/v1/execute", RUN, headers)
        answer = client.getresponse()
        answer.read()
        return answer.status


def case_serve(binary, folder):
    key_file = folder / ".local/state/ingot/sandbox.key"
    with Server(binary, folder) as server:
        key = key_file.read_text().strip()
        check(str(key_file) in "".join(server.said) and key not in "".join(server.said), server.said)
        check(key_file.stat().st_mode & 0o777 == 0o600 and len(key) == 64, oct(key_file.stat().st_mode))
        bearer, own = {"Authorization": "Bearer " + key}, f"127.0.0.1:{server.port}"
        check(server.ask() == 401, "without the key")
        check(server.ask(**bearer) == 200, "with the key")
        check(server.ask(**{"X-API-Key": key}) == 200, "as E2B's SDK shows it")
        check(server.ask(**bearer, Origin="http://" + own) == 200, "from its own origin")
        check(server.ask(**bearer, Origin="http://evil.example") == 403, "from another origin")
        check(server.ask(**bearer, Host="evil.example") == 403, "under another name")
    with Server(binary, folder, "--allow-host", "box", "--allow-origin", "http://localhost:3000") as server:
        check(server.ask(**bearer, Host="box", Origin="http://localhost:3000") == 200, "the same key, a name and an origin")
    with Server(binary, folder, "--no-key") as server:
        check(server.ask() == 200, "no key is asked for")
        check(server.ask(Host="evil.example") == 403 and server.ask(Origin="http://evil.example") == 403, "pages stay out")
    for words, why in ((["--no-key", "--host", "0.0.0.0"], "can be reached from other machines"),
                       (["--no-key", "--key-file", str(key_file)], "use either")):
        done = subprocess.run([binary, "sandbox", "serve", *words], capture_output=True, text=True, timeout=60)
        check(done.returncode != 0 and why in done.stderr, done.stderr)


def main():
    binary, _, case = sys.argv[1:4]
    with tempfile.TemporaryDirectory(prefix="ingot-serve-") as name:
        {"serve": case_serve}[case](os.path.abspath(binary), pathlib.Path(name))


if __name__ == "__main__":
    main()
