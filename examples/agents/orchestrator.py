#!/usr/bin/env python3
"""Solves a task with sub-agents that work in parallel, like Kimi K2.5's orchestrator (arXiv 2602.02276, section 3).

    OPENAI_BASE_URL=http://host:port/v1 OPENAI_API_KEY=... INGOT_EPISODE_ID=... orchestrator.py TASK.json

TASK.json; all fields except the first two are optional:

    {"prompt": "text of the user's message",
     "answer": "expected text",         the reward is 1 if the answer equals it, or the share of right words
     "score": "exact",                  "words": the share of the words of "answer" that stand at their place in the answer
     "system": "text",
     "sub_agent": {"model": "sub-agent", "system": "text", "tools": [...], "tables": {...}, "max_turns": 4, "max_tokens": 64},
     "create_on_assign": false,         true: a task for an unknown name creates the sub-agent, and create_subagent is not offered
     "budget": 0,                       critical steps after which the episode ends; 0 = no limit
     "max_turns": 8, "max_agents": 8, "max_tokens": 512}

    create_subagent(name, system)   a sub-agent with its own messages and the tools and tables of "sub_agent"
    assign_task(agent, task)        its answer; the assignments of one turn run at the same time, those to one agent in turn

If a sub-agent fails or never answers, the tool's result says so, and it counts as assigned but not finished. Posts the
reward, the signals `subagents/*`, and the fact `stages` (docs/guide/rewards.md), which Ingot compares with its own
count of the calls. A stage is one turn of the orchestrator and its sub-agents' calls. Its critical steps are 1 plus the
highest number of calls by any sub-agent. Exit codes: 0, 1 if the server could not be reached, 2 for invalid arguments.
"""
import sys

sys.path.insert(0, __file__.rpartition("/")[0] or ".")
import harness  # noqa: E402
import tool_agent  # noqa: E402


def tool(name, *parameters):
    properties = {parameter: {"type": "string"} for parameter in parameters}
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}


CREATE, ASSIGN = tool("create_subagent", "name", "system"), tool("assign_task", "agent", "task")


class SubAgent:
    """A frozen model with its own messages. `calls` counts the answers of its model."""

    def __init__(self, settings, system):
        self.settings, self.calls = settings, 0
        self.messages = [{"role": "system", "content": system}] if system else []

    def work(self, text):
        """The answer to a task. Fails if there is none after max_turns calls."""
        model = harness.Model()
        self.messages.append({"role": "user", "content": text})
        for _ in range(self.settings.get("max_turns", 4)):
            reply = model.ask(self.messages, self.settings.get("tools"), self.settings.get("max_tokens", 64),
                              self.settings.get("model", "sub-agent"))
            self.calls += 1
            self.messages.append(reply)
            calls = harness.calls_of(reply)
            if not calls:
                return answer_of(reply)
            for call in calls:
                result = tool_agent.call_tool(self.settings.get("tables", {}), call)
                self.messages.append({"role": "tool", "tool_call_id": str(call.get("id", "")), "content": result})
        raise harness.Failure("no answer after its last turn")


def answer_of(reply):
    text = harness.text_of(reply).strip()
    if not text:
        raise harness.Failure("an empty answer")
    return text


class Job:
    """The assignments of one turn to one sub-agent, in order."""

    def __init__(self, agent):
        self.agent, self.before, self.tasks, self.results = agent, agent.calls, [], []

    def run(self):
        for text in self.tasks:
            try:
                self.results.append((True, self.agent.work(text)))
            except (OSError, harness.Failure) as failure:
                self.results.append((False, f"error: the sub-agent failed: {failure}"))

    def steps(self):
        return self.agent.calls - self.before


def run_all(jobs):
    """Runs the jobs at the same time."""
    if len(jobs) < 2:
        return [job.run() for job in jobs]
    from threading import Thread

    threads = [Thread(target=job.run) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Orchestrator:
    def __init__(self, task):
        self.settings, self.limit = task.get("sub_agent") or {}, task.get("max_agents", 8)
        self.creates = not task.get("create_on_assign")
        self.agents, self.stages = {}, []
        self.worked, self.finished = set(), set()  # names of the sub-agents with a task, and without a failed one

    def offered(self):
        return [CREATE, ASSIGN] if self.creates else [ASSIGN]

    def create(self, arguments):
        if not self.creates:
            raise harness.Refused("error: no such tool")
        self.add(harness.argument(arguments, "name"), harness.argument(arguments, "system"))
        return "created"

    def add(self, name, system):
        if name in self.agents:
            raise harness.Refused(f"error: there is a sub-agent '{name}'")
        if len(self.agents) >= self.limit:
            raise harness.Refused(f"error: {len(self.agents)} sub-agents of at most {self.limit}")
        self.agents[name] = SubAgent(self.settings, system)

    def assign(self, jobs, arguments):
        """Adds a task to a turn's jobs. Returns the agent's name and the place of the task's result."""
        name, text = harness.argument(arguments, "agent"), harness.argument(arguments, "task")
        if name not in self.agents:
            if self.creates:
                raise harness.Refused(f"error: no sub-agent '{name}'")
            self.add(name, self.settings.get("system", ""))
        job = jobs.setdefault(name, Job(self.agents[name]))
        job.tasks.append(text)
        return name, len(job.tasks) - 1

    def turn(self, calls):
        """Carries out the calls of one turn. Returns the tools' messages, in the order of the calls."""
        jobs, places = {}, {}
        tools = {"create_subagent": self.create, "assign_task": lambda arguments: self.assign(jobs, arguments)}
        messages = [harness.carry_out(call, tools) for call in calls]
        run_all(list(jobs.values()))
        self.count(jobs)
        for message in messages:
            if isinstance(message["content"], tuple):
                name, place = message["content"]
                message["content"] = jobs[name].results[place][1]
        return messages

    def count(self, jobs):
        for name, job in jobs.items():
            self.worked.add(name)
            good = all(good for good, _ in job.results)
            self.finished = self.finished | {name} if good else self.finished - {name}
        self.stages.append({"main": 1, "sub": [job.steps() for job in jobs.values()]} if jobs else {"main": 1})

    def critical_steps(self):
        return sum(stage["main"] + max(stage.get("sub", [0])) for stage in self.stages)

    def report(self, reward):
        signals = {"subagents/created": len(self.agents), "subagents/assigned": len(self.worked),
                   "subagents/finished": len(self.finished), "subagents/critical_steps": self.critical_steps()}
        harness.post(reward, signals, {"stages": self.stages})


def score(task, answer):
    expected = str(task.get("answer", ""))
    if task.get("score") != "words":
        return float(bool(expected) and answer.strip() == expected)
    words, given = expected.split(), answer.split()[:len(expected.split())]
    return sum(word == one for word, one in zip(words, given)) / max(1, len(words))


def play(task):
    model, team = harness.Model(), Orchestrator(task)
    messages = [{"role": "system", "content": task["system"]}] if task.get("system") else []
    messages.append({"role": "user", "content": task["prompt"]})
    answer, budget = "", task.get("budget", 0)
    for _ in range(task.get("max_turns", 8)):
        reply = model.ask(messages, team.offered(), task.get("max_tokens", 512))
        messages.append(reply)
        results = team.turn(harness.calls_of(reply))
        if budget and team.critical_steps() > budget:
            break
        if not results:
            answer = harness.text_of(reply)
            break
        messages += results
    team.report(score(task, answer))
    return answer


if __name__ == "__main__":
    sys.exit(harness.main(sys.argv, "orchestrator", play, {"prompt": str}, system=str, sub_agent=dict, budget=int, max_turns=int,
                          max_agents=int, max_tokens=int))
