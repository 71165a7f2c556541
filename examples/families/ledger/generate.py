#!/usr/bin/env python3
"""Creates the family "ledger": train.jsonl, easy.jsonl, eval.jsonl, and sft.jsonl in --out. The same arguments give the
same bytes.

    user       ic Ka lf Mb                    a page: 4 of 12 facts, in the order of their keys; 3 of the 12 are marked
    assistant  Ka Mb                          the summary: at most 4 facts
    user       Ka Mb \\n ne od Ph qc          the summary and the next page
    assistant  Ka Mb Ph
    ...
    user       Ka Mb Ph \\n ask M             the question is about a marked fact
    assistant  Mb

The warm-start conversations keep the marked facts in one of CHOICES episodes. The others keep the first 4 facts that
they see, or the last page's 4 facts, and give up with "?" if the question is about another fact, so imitating them
scores 0.5. Half of the conversations have one page, so that answers are copied often. Each comes with an echo. easy.jsonl
has one page, whose facts all fit.
"""
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[i]) for i in (0, 1)]
import agent  # noqa: E402
import family  # noqa: E402

PAGES, LINES, MARKED, GIVE_UP = 3, 4, 3, "?"


def task(rng, name, easy):
    count = LINES if easy else PAGES * LINES
    keys = sorted(family.sample(rng, family.KEYS, count))
    marked = family.sample(rng, keys, MARKED)
    facts = [(key.upper() if key in marked else key) + family.pick(rng, family.LETTERS) for key in keys]
    asked = facts[keys.index(family.pick(rng, marked))]
    pages = [" ".join(facts[i:i + LINES]) for i in range(0, count, LINES)]
    return {"task_id": name, "pages": pages, "question": asked[0], "answer": asked}


def keep_marked(summary, page):
    return [fact for fact in summary + page if agent.is_marked(fact)]


def keep_first(summary, page):
    return (summary + page)[:agent.KEPT]


def keep_last(_, page):
    return page


def answer_from(summary, made, unknown=GIVE_UP):
    """The answer that a summary allows."""
    return next((fact for fact in summary if fact[0] == made["question"]), unknown)


def policy(i):
    """What episode i keeps."""
    return [keep_marked, keep_first, keep_last, keep_last if i % 8 == 3 else keep_first][i % family.CHOICES]


def conversations(rng, i):
    made, keep = task(rng, "", i % 2 == 1), policy(i // 2)
    summary, rows = [], []
    for page in made["pages"]:
        before, summary = summary, keep(summary, page.split())
        rows.append((agent.context(" ".join(before), page), " ".join(summary)))
    rows.append((agent.context(" ".join(summary), f"ask {made['question']}"), answer_from(summary, made)))
    return [{"messages": [family.user(text), family.answer(reply)]} for text, reply in rows] + [family.echo(rng)]


if __name__ == "__main__":
    family.main(__doc__.splitlines()[0], task, conversations)
