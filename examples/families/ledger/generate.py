#!/usr/bin/env python3
"""Creates the family "ledger": train.jsonl, easy.jsonl, eval.jsonl, and sft.jsonl in --out. The same arguments give the
same bytes.

    user       i=c K=a l=f M=b                a page: 4 of 12 facts, in the order of their keys; 3 of the 12 are marked
    assistant  K=a M=b                        the summary: at most 4 facts
    user       K=a M=b \\n n=e o=d P=h q=c     the summary and the next page
    assistant  K=a M=b P=h
    ...
    user       K=a M=b P=h \\n ask M           the question is about a marked fact
    assistant  b

The warm-start conversations keep the marked facts in one of CHOICES episodes. The others keep the first 4 facts that
they see, or the last page's 4 facts, and guess if the question is about another fact, so imitating them scores 0.56.
easy.jsonl has one page and keeps every fact.
"""
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[i]) for i in (0, 1)]
import agent  # noqa: E402
import family  # noqa: E402

PAGES, LINES, MARKED = 3, 4, 3


def task(rng, name, easy):
    count = LINES if easy else PAGES * LINES
    keys = sorted(family.sample(rng, family.KEYS, count))
    marked = family.sample(rng, keys, MARKED)
    facts = [(key.upper() if key in marked else key) + "=" + family.pick(rng, family.LETTERS) for key in keys]
    asked = facts[keys.index(family.pick(rng, marked))]
    pages = [" ".join(facts[i:i + LINES]) for i in range(0, count, LINES)]
    return {"task_id": name, "pages": pages, "question": asked[0], "answer": asked[-1]}


def keep_marked(summary, page):
    return [fact for fact in summary + page if agent.is_marked(fact)]


def keep_first(summary, page):
    return (summary + page)[:agent.KEPT]


def keep_last(_, page):
    return page


def guess(rng, summary, made):
    """The answer that a summary allows."""
    known = [fact[-1] for fact in summary if fact[0] == made["question"]]
    return known[0] if known else family.pick(rng, family.LETTERS)


def conversations(rng, i):
    made = task(rng, "", False)
    keep = [keep_marked, keep_first, keep_last, keep_first, keep_marked, keep_last, keep_first, keep_last][i % 8]
    summary, rows = [], []
    for page in made["pages"]:
        before, summary = summary, keep(summary, page.split())
        rows.append((agent.context(" ".join(before), page), " ".join(summary)))
    rows.append((agent.context(" ".join(summary), f"ask {made['question']}"), guess(rng, summary, made)))
    return [{"messages": [family.user(text), family.answer(reply)]} for text, reply in rows]


if __name__ == "__main__":
    family.main(__doc__.splitlines()[0], task, conversations)
