#!/usr/bin/env python3
"""Creates the family "hunt": train.jsonl, easy.jsonl, eval.jsonl, and sft.jsonl in --out. The same arguments give the
same bytes.

    user       find k
    assistant  calls search_corpus({"query": "k"})
    tool       [C] k q \\n [F] k>m \\n ...      6 chunks; the one with ">" names the next word
    assistant  calls search_corpus({"query": "m"})
    tool       [A] m>p \\n [B] m s \\n ...
    assistant  calls search_corpus({"query": "p"})
    tool       [D] p j \\n [E] p>c \\n ...
    assistant  F A E                          the 3 relevant of 24 chunks; the last one holds the answer

The agent is examples/agents/pruner.py. The reward term `retrieval` is 2 for this answer, and below 0.6 for any answer
after one search, because the second search's word is only in a chunk from the first search. The warm-start
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

HOPS, PAGE, IDS = 3, 6, "ABCDEFGHIJKLMNOPQRSTUVWX"
SETTINGS = {"context": 4096, "search_tokens": 2048, "reserve": 256, "page": PAGE}


def task(rng, name, easy):
    keys = family.sample(rng, family.KEYS, HOPS)
    others = [key for key in family.KEYS if key not in keys]
    chain = [f"{key}>{last}" for key, last in zip(keys, keys[1:] + [family.pick(rng, family.LETTERS)])]
    texts = chain + [f"{key} {family.pick(rng, others)}" for key in keys for _ in range(PAGE - 1)]
    texts += [f"{family.pick(rng, others)} {family.pick(rng, others)}" for _ in range(len(IDS) - len(texts))]
    order = family.sample(rng, range(len(texts)), len(texts))
    ids = {text: IDS[order.index(i)] for i, text in enumerate(chain)}
    relevant = [ids[text] for text in chain]
    return {"task_id": name, "question": f"{'trace' if easy else 'find'} {keys[0]}", "chunks": {IDS[place]: texts[i] for place, i in enumerate(order)},
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
        query = made["chunks"][made["relevant_ids"][turn]][-1]
    answer = family.answer(" ".join(made["relevant_ids"][:searches]))
    return [{"messages": context.messages + [answer], "tools": pruner.TOOLS}, family.echo(rng, family.LETTERS + family.KEYS + IDS)]


if __name__ == "__main__":
    family.main(__doc__.splitlines()[0], task, conversations)
