#!/usr/bin/env python3
"""Measures a corpus's searches: the share of each query's relevant chunks among the first k, as a Markdown table. Needs numpy.

    recall.py CORPUS QUERIES.jsonl [K...]        QUERIES.jsonl: {"kind", "query", "relevant_ids"}, such as wordnet.py's

CORPUS is a file of agents/corpus.py with embeddings. The last lines compare the fusion with each search on its own: the mean difference
at the largest k over all queries of a kind, with a 95% bootstrap interval of paired queries. Exit code 2: a mistake in how it was called.
"""
import json
import pathlib
import random
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "agents")]
from corpus import KINDS, BadCorpus, Corpus  # noqa: E402

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
    """Recalls by (kind of query, search, k), one for each query, and the seconds of each search."""
    recalls, seconds = {}, dict.fromkeys(KINDS, 0.0)
    for kind, query, relevant in queries:
        for search in KINDS:
            begin = time.monotonic()
            found = [id for id, _ in corpus.search(query, most, search)]
            seconds[search] += time.monotonic() - begin
            hits = 0
            for k in range(1, most + 1):
                hits += k <= len(found) and found[k - 1] in relevant
                recalls.setdefault((kind, search, k), []).append(hits / len(relevant))
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
    print("\nmean time of a search: " + ", ".join(f"{search} {1000 * seconds[search] / len(queries):.1f} ms" for search in KINDS))
    for kind in dict.fromkeys(kind for kind, *_ in queries):
        for search in KINDS[:2]:
            pairs = zip(recalls[kind, "hybrid", cuts[-1]], recalls[kind, search, cuts[-1]])
            mean, low, high = interval([hybrid - alone for hybrid, alone in pairs])
            print(f"{kind}: hybrid minus {search} at {cuts[-1]}: {mean:+.3f} ({low:+.3f} to {high:+.3f})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
