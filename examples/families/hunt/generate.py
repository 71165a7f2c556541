#!/usr/bin/env python3
"""Creates the family "hunt": train.jsonl, easy.jsonl, eval.jsonl, and sft.jsonl in --out. The same arguments give the
same bytes.

    user       find k
    assistant  calls search_corpus({"query": "k"})
    tool       [m] k> \\n [c] k q u \\n ...     6 chunks; the best match has ">", and its id is the next word
    assistant  calls search_corpus({"query": "m"})
    tool       [p] m> \\n [a] m s o \\n ...
    assistant  calls search_corpus({"query": "p"})
    tool       [e] p> \\n [d] p j h \\n ...
    assistant  m p e                          the 3 relevant of 24 chunks; the last one is the answer

The agent is examples/agents/pruner.py. The reward term `retrieval` is 2 for this answer, and below 0.6 for any answer
after one search, because the second search's word is only known from the first search. The warm-start
conversations search three times in one of CHOICES episodes, and stop after one search in the others. As many
conversations have the prompt "trace k" and always search three times: they teach to copy words and ids. easy.jsonl has
such prompts. Every other conversation is an echo.
"""
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]), str(pathlib.Path(__file__).resolve().parents[2] / "agents")]
import family  # noqa: E402
import pruner  # noqa: E402
from corpus import Corpus  # noqa: E402

HOPS, PAGE, CHUNKS, WORDS = 3, 6, 24, family.LETTERS + family.KEYS
SETTINGS = {"context": 4096, "search_tokens": 2048, "reserve": 256, "page": PAGE}


def task(rng, name, easy):
    ids = family.sample(rng, WORDS, CHUNKS)
    relevant = ids[:HOPS]
    chain = [family.pick(rng, [word for word in WORDS if word not in relevant])] + relevant  # the searches, and the answer
    others = [word for word in WORDS if word not in chain]

    def noise(first):
        return " ".join([first, *family.sample(rng, others, 2)])

    texts = [f"{word}>" for word in chain[:HOPS]] + [noise(word) for word in chain[:HOPS] for _ in range(PAGE - 1)]
    texts += [noise(family.pick(rng, others)) for _ in range(CHUNKS - len(texts))]
    return {"task_id": name, "question": f"{'trace' if easy else 'find'} {chain[0]}", "chunks": dict(sorted(zip(ids, texts))),
            "relevant_ids": relevant, "answer_ids": relevant[-1:]}


def conversations(rng, i):
    made = task(rng, "", i % 2 == 1)
    searches = HOPS if i % 2 == 1 or i // 2 % family.CHOICES == 0 else 1
    context = pruner.Context({**SETTINGS, "question": made["question"]})
    context.tokens_per_byte = 1  # the model reads bytes
    searcher = pruner.Searcher(SETTINGS, Corpus.of(made["chunks"]), context)
    query = made["question"].split()[-1]
    for turn in range(searches):
        reply = family.calls(("search_corpus", {"query": query}))
        context.add_reply(reply, None)
        context.add_result("call_0", *searcher.carry_out(reply["tool_calls"][0]))
        query = made["relevant_ids"][turn]
    answer = family.answer(" ".join(made["relevant_ids"][:searches]))
    return [{"messages": context.messages + [answer], "tools": pruner.TOOLS}, family.echo(rng)]


if __name__ == "__main__":
    family.main(__doc__.splitlines()[0], task, conversations)
