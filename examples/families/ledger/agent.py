#!/usr/bin/env python3
"""Reads a ledger page by page and keeps a few of its facts in summaries (summarizer.py's chain).

    OPENAI_BASE_URL=http://host:port/v1 OPENAI_API_KEY=... agent.py TASK.json

TASK.json: {"pages": ["ic Ka ..."], "question": KEY, "answer": FACT}. Each context consists of the last summary and
one page. The model answers with the next summary, and only its first KEPT facts are kept. The last context is the
summary and "ask KEY". Prints {"reward": .., "signals": {..}} for the verifier `agent_reported`. A fact with a capital
key is marked: `ledger/marked_kept` is the share of the marked facts that reach the last summary.
"""
import sys

sys.path.insert(0, __file__.rpartition("/")[0] + "/../../agents")
import harness  # noqa: E402

KEPT, MAX_TOKENS = 4, 40


def first_facts(summary):
    return " ".join(summary.split()[:KEPT])


def context(summary, last):
    """The user's message: the summary, then a page or the question."""
    return f"{summary}\n{last}" if summary else last


def is_marked(fact):
    return fact[0].isupper()


def play(task):
    model, summary, empty = harness.Model(), "", 0

    def say(last):
        return harness.text_of(model.ask([{"role": "user", "content": context(summary, last)}], max_tokens=MAX_TOKENS))

    for page in task["pages"]:
        summary = first_facts(say(page))
        empty += not summary
    answer = say(f"ask {task['question']}").strip()
    marked = [fact for page in task["pages"] for fact in page.split() if is_marked(fact)]
    kept = sum(fact in summary.split() for fact in marked) / max(1, len(marked))
    signals = {"ledger/marked_kept": kept, "ledger/summaries": len(task["pages"]), "ledger/empty_summaries": empty}
    return harness.dumps({"reward": float(answer == task["answer"]), "signals": signals})


if __name__ == "__main__":
    sys.exit(harness.main(sys.argv, "ledger", play, {"pages": list, "question": str, "answer": str}))
