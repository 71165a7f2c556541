#!/usr/bin/env python3
"""Completion of the command line in real shells, with keys typed at a terminal: shell_tests.py BINARY. Shells that are not there are passed over."""
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import sys
import tempfile
import time

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source <(ingot completion bash)"),
    "zsh": (["zsh", "-f", "-i"], "autoload -Uz compinit && compinit -u && source <(ingot completion zsh)"),
    "fish": (["fish", "--no-config", "-i"], "ingot completion fish | source"),
}
# Typed, and the command line that Tab must make of it.
LINES = {
    "ingot trai\t": "ingot train",
    "ingot model conv\t": "ingot model convert",
    "ingot train run.yaml trainer.update_variance_e\t": "trainer.update_variance_every=",
    "ingot train run.yaml --set scheduler.groups_per_s\t": "scheduler.groups_per_step=",
    "ingot train conf-of\t": "conf-of-a-run.yaml",
}


class Terminal:
    def __init__(self, argv, folder, path):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(argv[0], argv, {"PATH": path, "HOME": folder, "TERM": "dumb", "LANG": "C.UTF-8", "PS1": "$ "})
        self.seen = ""

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait_for(self, text, seconds=60):
        """Whether the screen shows `text`, behind what was looked for before."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>()][0-9A-B]?|\x1b\][^\x07]*\x07|[\r\b\x07]", "", self.seen)
            if text in plain:
                self.seen = ""
                return True
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.fd, 65536).decode(errors="replace")
                except OSError:
                    return False
        return False

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def check_shell(name, folder, path):
    argv, source = SHELLS[name]
    terminal = Terminal(argv, folder, path)
    try:
        terminal.type(source + " ; echo rea''dy\n")
        if not terminal.wait_for("ready\n"):
            return f"{name} did not load the script: {terminal.seen!r}"
        for typed, wanted in LINES.items():
            terminal.type(typed)
            if not terminal.wait_for(wanted):
                return f"{name}: {typed!r} did not become {wanted!r}: {terminal.seen!r}"
            terminal.type("\x05\x15")  # to the end of the line, and the line away
            time.sleep(0.2)
    finally:
        terminal.close()
    return ""


def main():
    binary = pathlib.Path(sys.argv[1]).resolve()
    failed = False
    with tempfile.TemporaryDirectory(prefix="ingot-shells-") as folder:
        (pathlib.Path(folder) / "conf-of-a-run.yaml").touch()
        (pathlib.Path(folder) / "bin").mkdir()
        (pathlib.Path(folder) / "bin" / "ingot").symlink_to(binary)
        for name in SHELLS:
            if shutil.which(name) is None:
                print(f"{name} is not installed")
                continue
            fault = check_shell(name, folder, f"{folder}/bin:/usr/bin:/bin")
            print(fault or f"{name} completes")
            failed = failed or bool(fault)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
