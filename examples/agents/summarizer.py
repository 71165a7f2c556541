#!/usr/bin/env python3
"""Works in a chain of short contexts: at a limit, the model writes a summary and continues from the prompt and the
summary.

    OPENAI_BASE_URL=http://host:port/v1 OPENAI_API_KEY=... summarizer.py TASK.json

Implements Composer 2's self-summary (arXiv 2603.24477). Every call in the chain, including summaries, belongs to one
episode, so all their tokens get the episode's reward. TASK.json is tool_agent.py's, without "session" and "strict", and
also has

    {"trigger": 2000,                    bytes of messages after which a summary is asked for
     "summary_prompt": "Summarize.",     the request for it
     "summary_max": 400,                 bytes of a summary that are kept
     "max_summaries": 8,                 a chain that needs more ends without an answer
     "answer_file": "answer.txt"}        where the answer also goes, for an answer of several lines

Prints the answer, or an empty line if the chain has used up its turns or summaries. After an empty summary, the chain
continues from the prompt alone. Exit codes: 0, 1 if the server could not be reached, 2 for invalid arguments.
"""
import sys

sys.path.insert(0, __file__.rpartition("/")[0] or ".")
import harness  # noqa: E402
import tool_agent  # noqa: E402


class Chain:
    """The messages of the current context. `summaries` lists what earlier contexts left."""

    def __init__(self, prompt, trigger, summary_prompt, summary_max, max_tokens=None):
        self.prompt, self.trigger, self.summary_prompt = prompt, trigger, summary_prompt
        self.summary_max, self.max_tokens = summary_max, max_tokens
        self.messages, self.summaries = [dict(message) for message in prompt], []

    def add(self, *messages):
        self.messages += messages

    def size(self):
        """The bytes of the messages."""
        return sum(len(harness.text_of(message).encode()) + len(str(message.get("tool_calls") or "")) for message in self.messages)

    def is_full(self):
        return self.size() > self.trigger and len(self.messages) > len(self.prompt) + bool(self.summaries)

    def summarize(self, model):
        """Asks for a summary. The next context is the prompt and the summary."""
        asked = self.messages + [{"role": "user", "content": self.summary_prompt}]
        reply = harness.text_of(model.ask(asked, max_tokens=self.max_tokens)).strip()
        self.summaries.append(reply.encode()[:self.summary_max].decode("utf-8", "ignore"))
        self.messages = [dict(message) for message in self.prompt]
        if self.summaries[-1]:
            self.add({"role": "user", "content": self.summaries[-1]})


def answer_of(task):
    """The chain's answer, or an empty one."""
    prompt = [{"role": "system", "content": task["system"]}] if task.get("system") else []
    prompt.append({"role": "user", "content": task["prompt"]})
    chain = Chain(prompt, task.get("trigger", 2000), task.get("summary_prompt", "Summarize."), task.get("summary_max", 400),
                  task.get("max_tokens"))
    model = harness.Model()
    for _ in range(task.get("max_turns", 16)):
        if chain.is_full():
            if len(chain.summaries) == task.get("max_summaries", 8):
                return ""
            chain.summarize(model)
        reply = model.ask(chain.messages, task.get("tools"), task.get("max_tokens"))
        calls = harness.calls_of(reply)
        if not calls:
            return harness.text_of(reply)
        chain.add(reply, *({"role": "tool", "tool_call_id": str(call.get("id", "")),
                            "content": tool_agent.call_tool(task.get("tables", {}), call)} for call in calls))
    return ""


def play(task):
    answer = answer_of(task)
    if task.get("answer_file"):
        with open(task["answer_file"], "w", encoding="utf-8") as file:
            file.write(answer)
    return answer


if __name__ == "__main__":
    sys.exit(harness.main(sys.argv, "summarizer", play, {"prompt": str}, trigger=int, summary_prompt=str, summary_max=int,
                          max_summaries=int, answer_file=str, **harness.TOOLS))
