"""A fork of an agent program between two calls, as a runner makes it: the agent is ended while a call waits, folder and HOME
are copied, and the copy goes on by the program's own command. The copy is seen at the trunk's path, as `work_at` shows it."""
import contextlib
import http.client
import http.server
import os
import shutil
import signal
import subprocess
import threading
import urllib.parse


class Gate:
    """Repeats requests to a server. The request that `holds` chooses waits, until the gate is opened."""

    def __init__(self, url, holds):
        self.held, self.opened = threading.Event(), threading.Event()
        gate, server = self, urllib.parse.urlsplit(url)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if not gate.opened.is_set() and holds(body.decode()):
                    gate.held.set()
                    gate.opened.wait()
                    return
                connection = http.client.HTTPConnection(server.netloc, timeout=120)
                connection.request("POST", self.path, body, {name: self.headers[name] for name in (
                    "Authorization", "Content-Type") if name in self.headers})
                answer = connection.getresponse()
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.getheader("Content-Type"))
                self.send_header("Connection", "close")
                self.end_headers()
                with contextlib.suppress(OSError):
                    while part := answer.read1():
                        self.wfile.write(part)
                connection.close()
                self.close_connection = True

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.opened.set()
        self.server.shutdown()
        self.server.server_close()


def run_until_held(gate, argv, folder, env, timeout):
    """The fault; empty = the agent was ended while its call waited."""
    log = folder.parent / "trunk.log"
    with open(log, "w", encoding="utf-8") as out:
        agent = subprocess.Popen(argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                 start_new_session=True)
        threading.Thread(target=lambda: (agent.wait(), gate.held.set()), daemon=True).start()
        held = gate.held.wait(timeout) and agent.poll() is None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(agent.pid, signal.SIGKILL)
        agent.wait()
    return "" if held else f"no call of the agent was held: {log.read_text(encoding='utf-8')[-3000:]}"


def fork(gate, begin, resume, place, make, timeout=240):
    """`make`(folder) fills an agent's folder and returns its environment. Runs `begin` in `place`/work until the gate holds it,
    then `resume` on a copy."""
    work, copy = place / "work", place / "copy"
    work.mkdir()
    wrong = run_until_held(gate, begin, work, make(work), timeout)
    if wrong:
        return 1, wrong
    shutil.copytree(work, copy, symlinks=True)
    shutil.rmtree(work)
    copy.rename(work)
    gate.opened.set()
    done = subprocess.run(resume, cwd=work, env=make(work), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", timeout=timeout)
    return done.returncode, done.stdout
