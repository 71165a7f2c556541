#!/usr/bin/env python3
"""E2B's Python SDKs from PyPI, at pinned versions and addressed by their own variables, against `ingot sandbox serve`.

e2b_clients.py INGOT installs them into build/e2b and runs the checks there. `--cells N` measures cells instead.
"""
import asyncio
import http.client
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

PACKAGES = ["e2b==2.63.0", "e2b-code-interpreter==2.11.5"]
VENV = pathlib.Path("build/e2b")
KEY = "a-key-of-the-service-0123456789"


def serve(ingot, folder):
    key_file = folder / "key"
    key_file.write_text(KEY + "\n")
    key_file.chmod(0o600)
    server = subprocess.Popen(
        [ingot, "sandbox", "serve", "--port", "0", "--key-file", str(key_file), "--session-memory", "512"],
        stdout=subprocess.PIPE, stderr=open(folder / "stderr", "wb"), text=True)
    for line in server.stdout:
        if "listening on" in line:
            return server, line.split()[-1]
    raise SystemExit("the service did not start: " + (folder / "stderr").read_text())


def check(name, holds, shown=""):
    print("ok  " if holds else "FAIL", name, "" if holds else shown)
    if not holds:
        check.failures += 1


check.failures = 0


def raises(kind, call):
    try:
        call()
    except kind as error:
        return str(error) or "raised"
    return None


def commands(Sandbox, e2b):
    sandbox = Sandbox.create(timeout=120, envs={"OF": "the sandbox"}, metadata={"test": "a b"})
    check("create", sandbox.is_running())
    result = sandbox.commands.run("echo $OF; pwd; echo problem >&2")
    check("run", result.stdout == "the sandbox\n/home/user\n" and result.stderr == "problem\n", repr(result))
    seen = []
    sandbox.commands.run("for i in 1 2 3; do echo $i; sleep 0.2; done",
                         on_stdout=lambda text: seen.append((text, time.monotonic())))
    check("stream", len(seen) == 3 and seen[2][1] - seen[0][1] > 0.3, repr(seen))
    failed = raises(e2b.CommandExitException, lambda: sandbox.commands.run("echo so; exit 7"))
    check("exit code", failed is not None and "7" in failed, failed)
    check("time limit", raises(e2b.TimeoutException, lambda: sandbox.commands.run("sleep 60", timeout=0.5)) is not None)
    handle = sandbox.commands.run("read line; echo got $line; sleep 100", background=True, stdin=True)
    sandbox.commands.send_stdin(handle.pid, "hello\n")
    check("stdin", next(iter(handle))[0] == "got hello\n")
    check("list", [p.pid for p in sandbox.commands.list()] == [handle.pid], repr(sandbox.commands.list()))
    check("kill", handle.kill() and not sandbox.commands.kill(999))
    other = sandbox.commands.run("cat", background=True, stdin=True)
    sandbox.commands.send_stdin(other.pid, "end")
    other.close_stdin()
    check("close_stdin", other.wait().stdout == "end")
    files(sandbox, e2b)
    same = Sandbox.connect(sandbox.sandbox_id)
    check("connect", same.files.read("/home/user/note.txt") == "first")
    check("list sandboxes", any(each.sandbox_id == sandbox.sandbox_id for each in
                                Sandbox.list(query=e2b.SandboxQuery(metadata={"test": "a b"})).next_items()))
    sandbox.set_timeout(300)
    check("get_info", sandbox.get_info().metadata == {"test": "a b"})
    check("kill sandbox", sandbox.kill() and not sandbox.is_running())
    gone = raises(e2b.SandboxException, lambda: sandbox.commands.run("true"))
    check("a killed sandbox", gone is not None and "was not found" in gone, gone)


def files(sandbox, e2b):
    written = sandbox.files.write("note.txt", "first")
    check("write", written.path == "/home/user/note.txt", repr(written))
    check("read", sandbox.files.read("/home/user/note.txt") == "first")
    big = os.urandom(3 << 20)
    sandbox.files.write("/tmp/big", big)
    check("bytes", bytes(sandbox.files.read("/tmp/big", format="bytes")) == big)
    check("stream of a file", b"".join(sandbox.files.read("/tmp/big", format="stream")) == big)
    with tempfile.TemporaryFile() as upload:
        upload.write(big)
        upload.seek(0)
        sandbox.files.write("up", upload)
    check("upload of a file", bytes(sandbox.files.read("up", format="bytes")) == big)
    sandbox.files.write_files([{"path": "d/a", "data": "1"}, {"path": "d/b", "data": b"2"}])
    entries = sandbox.files.list("/home/user", depth=2)
    check("list files", [e.path for e in entries] == ["/home/user/d", "/home/user/d/a", "/home/user/d/b",
                                                      "/home/user/note.txt", "/home/user/up"], repr(entries))
    info = sandbox.files.get_info("d/a")
    check("get_info of a file", info.size == 1 and info.type == e2b.FileType.FILE and info.permissions == "-rw-r--r--",
          repr(info))
    check("make_dir", sandbox.files.make_dir("new/dir") and not sandbox.files.make_dir("new/dir"))
    check("rename", sandbox.files.rename("d/a", "new/a").path == "/home/user/new/a")
    sandbox.files.remove("d")
    check("exists", sandbox.files.exists("new/a") and not sandbox.files.exists("d"))
    check("missing", raises(e2b.FileNotFoundException, lambda: sandbox.files.read("none")) is not None)


def cells(CodeSandbox):
    with CodeSandbox.create() as sandbox:
        sandbox.run_code("x = 20")
        run = sandbox.run_code("import sys\nprint('out')\nprint('err', file=sys.stderr)\nx + 1")
        check("run_code", run.text == "21" and run.logs.stdout == ["out\n"] and run.logs.stderr == ["err\n"], repr(run))
        failed = sandbox.run_code("1 / 0")
        check("error of a cell", failed.error.name == "ZeroDivisionError" and "1 / 0" in failed.error.traceback,
              repr(failed))
        seen = []
        sandbox.run_code("import time\nfor i in range(3):\n  print(i)\n  time.sleep(0.2)",
                         on_stdout=lambda message: seen.append(time.monotonic()))
        check("stream of a cell", len(seen) == 3 and seen[2] - seen[0] > 0.3, repr(seen))
        context = sandbox.create_code_context(cwd="/tmp")
        check("contexts", sandbox.run_code("import os; os.getcwd(), 'x' in dir()", context=context).text ==
              "('/tmp', False)")
        sandbox.restart_code_context(context)
        sandbox.remove_code_context(context)
        check("list contexts", len(sandbox.list_code_contexts()) == 1)
        from e2b import TimeoutException
        check("time limit of a cell", raises(TimeoutException, lambda: sandbox.run_code("while True: pass", timeout=1)) is
              not None)
        check("the state after it", sandbox.run_code("x").text == "20")


async def asynchronous(AsyncSandbox):
    sandbox = await AsyncSandbox.create()
    results = await asyncio.gather(*[sandbox.commands.run(f"sleep 0.3; echo {i}") for i in range(8)])
    check("eight at a time", [r.stdout for r in results] == [f"{i}\n" for i in range(8)], repr(results))
    await sandbox.kill()


def timed(name, count, call):
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1000)
    times.sort()
    print(f"{count} x {name}: p50 {statistics.median(times):.2f} ms, p99 {times[int(count * .99) - 1]:.2f} ms")


def measure(url, e2b, CodeSandbox, count):
    own = http.client.HTTPConnection(url.split("/")[2])

    def ask(method, path, body=None):
        own.request(method, "/ingot/v1/" + path, json.dumps(body or {}), {"Authorization": "Bearer " + KEY})
        return json.loads(own.getresponse().read())

    print("load average:", os.getloadavg())
    session = ask("POST", "sessions")["id"]
    ask("POST", f"sessions/{session}/cells", {"code": "x = 0"})
    timed("cell", count, lambda: ask("POST", f"sessions/{session}/cells", {"code": "x += 1\nx"}))
    timed("command in a session", count, lambda: ask("POST", f"sessions/{session}/execute", {"command": ["true"]}))
    timed("batch in a sandbox of its own", count, lambda: ask("POST", "execute", {"command": ["true"]}))
    timed("session opened and ended", count // 10, lambda: ask("DELETE", "sessions/" + ask("POST", "sessions")["id"]))
    with CodeSandbox.create() as sandbox:
        sandbox.run_code("x = 0")
        timed("cell through the SDK", count, lambda: sandbox.run_code("x += 1\nx"))
        timed("command through the SDK", count, lambda: sandbox.commands.run("true"))


def main():
    ingot = os.path.abspath(sys.argv[1])
    if pathlib.Path(sys.prefix).resolve() != VENV.resolve():
        if not (VENV / "bin/python").exists():
            subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        subprocess.run([VENV / "bin/pip", "install", "--quiet", *PACKAGES], check=True)
        os.execv(VENV / "bin/python", [str(VENV / "bin/python"), __file__, *sys.argv[1:]])
    with tempfile.TemporaryDirectory() as folder:
        server, url = serve(ingot, pathlib.Path(folder))
        try:
            os.environ.update(E2B_API_URL=url, E2B_SANDBOX_URL=url, E2B_API_KEY=KEY)
            import e2b
            from e2b_code_interpreter import Sandbox as CodeSandbox
            if "--cells" in sys.argv:
                return measure(url, e2b, CodeSandbox, int(sys.argv[sys.argv.index("--cells") + 1]))
            check("a wrong key", raises(e2b.AuthenticationException, lambda: e2b.Sandbox.create(api_key="wrong")) is not
                  None)
            commands(e2b.Sandbox, e2b)
            cells(CodeSandbox)
            asyncio.run(asynchronous(e2b.AsyncSandbox))
        finally:
            server.terminate()
            server.wait(timeout=20)
        log = (pathlib.Path(folder) / "stderr").read_text()
        check("keys are in no log", KEY not in log)
    sys.exit(1 if check.failures else 0)


if __name__ == "__main__":
    main()
