#!/usr/bin/env python3
"""Runs Terminus 2 from the package harbor in an episode's sandbox: terminus.py PROMPT, with OPENAI_BASE_URL and
OPENAI_API_KEY set. Terminus types into a tmux session on this machine. Harbor's own environments, containers, and
trials are not used. Prints the agent's last message. MAX_TURNS limits its turns (default 8)."""
import asyncio
import os
import pathlib
import shutil
import sys
import tempfile

from harbor.agents.terminus_2 import Terminus2
from harbor.environments.base import ExecResult
from harbor.models.agent.context import AgentContext


class Sandbox:
    """The part of Harbor's BaseEnvironment that Terminus uses, over processes next to this one."""

    default_user = None

    def __init__(self, folder):
        self.folder = folder

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None):
        # Files, not pipes: tmux leaves a server running that would hold a pipe open.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = await asyncio.create_subprocess_shell(
                command, cwd=cwd or self.folder, env={**os.environ, "TERM": "xterm", "TMUX_TMPDIR": self.folder, **(env or {})},
                stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=err)
            try:
                code = await asyncio.wait_for(process.wait(), timeout_sec)
            except asyncio.TimeoutError:
                process.kill()
                code = 124
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode(errors="replace"))
        return ExecResult(stdout=texts[0], stderr=texts[1], return_code=code)

    async def is_dir(self, path, **_):
        return os.path.isdir(path)

    async def upload_file(self, source_path, target_path):
        shutil.copy(source_path, target_path)

    async def download_file(self, source_path, target_path):
        shutil.copy(source_path, target_path)


async def main():
    logs = pathlib.Path(os.environ["HOME"], "terminus")
    logs.mkdir(parents=True, exist_ok=True)
    agent = Terminus2(logs_dir=logs, model_name="openai/ingot", api_base=os.environ["OPENAI_BASE_URL"],
                      max_turns=int(os.environ.get("MAX_TURNS", "8")), record_terminal_session=False,
                      enable_summarize=False, suppress_max_turns_warning=True,
                      model_info={"max_input_tokens": 100000, "max_output_tokens": 4096})
    sandbox = Sandbox(os.getcwd())
    await agent.setup(sandbox)
    await agent.run(sys.argv[1], sandbox, AgentContext())
    chat = agent._chat  # the public result has only token counts
    said = [message["content"] for message in chat.messages if message["role"] == "assistant"] if chat else []
    print(said[-1] if said else "")


asyncio.run(main())
