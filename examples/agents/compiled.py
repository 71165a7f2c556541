#!/usr/bin/env python3
"""Runs an agent in this folder without compiling it first: compiled.py AGENT [ARGUMENT ...]

    python3 -m compileall -q examples/agents
    python3 -I -S examples/agents/compiled.py tool_agent task.json

Python compiles the program it is given at every start, which is a third of tool_agent.py's start-up, but keeps the
compiled form of an imported module in __pycache__. Sandboxes cannot write that folder, so compile the agents before the
run, as `make smoke` does. If that has not been done, the agent still runs, only slower.
"""
import sys

sys.path.insert(0, __file__.rpartition("/")[0] or ".")  # which -I leaves out
agent = __import__(sys.argv[1])
agent.leave(agent.main(sys.argv[1:]))
