#!/usr/bin/env python3
"""Measures a corpus's searches: the share of each query's relevant chunks among the first k, as a Markdown table. Needs numpy.

    recall.py CORPUS QUERIES.jsonl [K...]        QUERIES.jsonl: {"kind", "query", "relevant_ids"}, such as wordnet.py's

CORPUS is a file from agents/corpus.py with embeddings. The last lines compare the fusion with each single search: the
mean difference at the largest k over all queries of a kind, with a 95% bootstrap interval over paired queries. Exit
code 2: invalid arguments.
"""
import json
import pathlib
import random
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "agents")]
from corpus import FUSED, KINDS, BadCorpus, Corpus, fuse  # noqa: E402

DRAWS = 1000


def read(path):
    try:
        rows = [json.loads(line) for line in open(path, encoding="utf-8")]
        return [(row["kind"], row["query"], set(row["relevant_ids"])) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as mistake:
        sys.exit(f"recall: {path}: {type(mistake).__name__}: {mistake}")


def interval(differences):
    """The mean and its 95% bootstrap interval."""
    rng, count = random.Random(7), len(differences)
    means = sorted(sum(differences[int(rng.random() * count)] for _ in range(count)) / count for _ in range(DRAWS))
    return sum(differences) / count, means[DRAWS // 40], means[-DRAWS // 40 - 1]


def measure(corpus, queries, most):
    """Recalls by (kind of query, search, k), one for each query, and the seconds of each part of all searches."""
    recalls, depth, begin = {}, max(most, FUSED), time.monotonic()
    vectors = corpus.vectors.model.embed([query for _, query, _ in queries])  # as Corpus.search does, but in batches
    seconds = {"embedding": time.monotonic() - begin, "bm25": 0.0, "comparison of vectors": 0.0}
    for (kind, query, relevant), vector in zip(queries, vectors):
        begin = time.monotonic()
        words = corpus.search(query, depth)
        middle = time.monotonic()
        dense = corpus.vectors.closest(vector, depth)
        seconds["bm25"] += middle - begin
        seconds["comparison of vectors"] += time.monotonic() - middle
        for search, found in zip(KINDS, (words, dense, fuse([words, dense]))):
            hits = [id in relevant for id, _ in found[:most]] + [False] * (most - len(found))
            for k in range(1, most + 1):
                recalls.setdefault((kind, search, k), []).append(sum(hits[:k]) / len(relevant))
    return recalls, seconds


def main(argv):
    if len(argv) < 3 or not all(word.isdigit() and int(word) > 0 for word in argv[3:]):
        print("usage: recall.py CORPUS QUERIES.jsonl [K...]", file=sys.stderr)
        return 2
    cuts = sorted({int(word) for word in argv[3:]} or {1, 5, 10, 20})
    queries = read(argv[2])
    try:
        corpus = Corpus.open(argv[1])
        corpus.use_embeddings()
    except BadCorpus as bad:
        print(f"recall: {bad}", file=sys.stderr)
        return 2
    recalls, seconds = measure(corpus, queries, cuts[-1])
    print("| queries | search | " + " | ".join(f"recall@{k}" for k in cuts) + " |\n" + "| --- " * (2 + len(cuts)) + "|")
    for kind in dict.fromkeys(kind for kind, *_ in queries):
        for search in KINDS:
            values = [recalls[kind, search, k] for k in cuts]
            print(f"| {kind} ({len(values[0])}) | {search} | " + " | ".join(f"{sum(one) / len(one):.3f}" for one in values) + " |")
    print("\nmean time for a query: " + ", ".join(f"{part} {1000 * spent / len(queries):.1f} ms" for part, spent in seconds.items()))
    for kind in dict.fromkeys(kind for kind, *_ in queries):
        for search in KINDS[:2]:
            pairs = zip(recalls[kind, "hybrid", cuts[-1]], recalls[kind, search, cuts[-1]])
            mean, low, high = interval([hybrid - alone for hybrid, alone in pairs])
            print(f"{kind}: hybrid minus {search} at {cuts[-1]}: {mean:+.3f} ({low:+.3f} to {high:+.3f})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
