#!/usr/bin/env python3
"""Embeds the chunks of a corpus once, and finds the chunks closest to a query. Needs numpy.

    embeddings.py FILE MODEL_FOLDER [CHUNKS_PER_COMMIT]     FILE: made by corpus.py; MODEL_FOLDER: see minilm.py

Prints its progress and time. The vectors are stored in FILE as float16, in batches. If it is stopped, the next start
continues after the last complete batch. Queries use the same model, from the same folder. Exit codes: 0, or 2 for
invalid arguments.
"""
import pathlib
import sqlite3
import sys
import time

sys.path.insert(0, __file__.rpartition("/")[0] or ".")
import numpy as np  # noqa: E402
from corpus import BadCorpus, Corpus  # noqa: E402
from minilm import BadModel, MiniLM  # noqa: E402

TABLES = """CREATE TABLE IF NOT EXISTS embedder (folder TEXT, size INTEGER);
CREATE TABLE IF NOT EXISTS vectors (first INTEGER PRIMARY KEY, count INTEGER, data BLOB)"""  # `first`: rowid of the first chunk
BATCH = 1024


def chunks_in(database):
    return database.execute("SELECT max(rowid) FROM chunks").fetchone()[0] or 0


def embedded_in(database):
    return database.execute("SELECT max(first + count - 1) FROM vectors").fetchone()[0] or 0


def note_model(database, folder, size):
    """Remembers the model. Fails if the corpus has another one's vectors."""
    known = database.execute("SELECT folder FROM embedder").fetchone()
    if known is None:
        database.execute("INSERT INTO embedder VALUES (?, ?)", (folder, size))
    elif known[0] != folder:
        raise BadCorpus(f"it has embeddings by {known[0]}: index the chunks again for another model")


def embed(database, folder, batch=BATCH, report=lambda done, total: None):
    """Embeds the chunks that have no vectors yet. Returns their number."""
    model, folder = MiniLM(folder), str(pathlib.Path(folder).resolve())
    database.executescript(TABLES)
    note_model(database, folder, model.size)
    begin, total = embedded_in(database), chunks_in(database)
    for after in range(begin, total, batch):
        rows = database.execute("SELECT text FROM chunks WHERE rowid > ? ORDER BY rowid LIMIT ?", (after, batch)).fetchall()
        vectors = model.embed([text for text, in rows])
        database.execute("INSERT INTO vectors VALUES (?, ?, ?)", (after + 1, len(rows), vectors.astype(np.float16).tobytes()))
        database.commit()
        report(after + len(rows), total)
    return total - begin


class Vectors:
    """All vectors of a corpus in memory, compared with a query by brute force."""

    def __init__(self, database, name):
        try:
            folder, self.size = database.execute("SELECT folder, size FROM embedder").fetchone() or ("", 0)
            done, total = embedded_in(database), chunks_in(database)
        except sqlite3.Error:
            folder, done, total = "", 0, 0
        if not folder:
            raise BadCorpus(f"{name} has no embeddings: add them with embeddings.py {name} MODEL_FOLDER")
        if done < total:
            raise BadCorpus(f"{name} has embeddings for {done:,} of {total:,} chunks: finish with embeddings.py {name} {folder}")
        data = b"".join(data for data, in database.execute("SELECT data FROM vectors ORDER BY first"))
        if len(data) != 2 * total * self.size:
            raise BadCorpus(f"{name} has damaged embeddings: index the chunks again")
        self.matrix = np.frombuffer(data, np.float16).reshape(total, self.size).astype(np.float32)
        self.database = database
        try:
            self.model = MiniLM(folder)
        except BadModel as bad:
            raise BadCorpus(f"{name} cannot be searched by embeddings: {bad}") from None

    def search(self, query, limit):
        return self.closest(self.model.embed([query])[0], limit)

    def closest(self, vector, limit):
        scores = self.matrix @ vector
        best = np.argpartition(-scores, min(limit, len(scores)) - 1)[:limit] if len(scores) else []
        best = sorted(best, key=lambda i: (-scores[i], i))
        get = "SELECT id, text FROM chunks WHERE rowid = ?"
        return [self.database.execute(get, (int(i) + 1,)).fetchone() for i in best]


def main(argv):
    if len(argv) not in (3, 4) or (len(argv) == 4 and not (argv[3].isdigit() and int(argv[3]) > 0)):
        print("usage: embeddings.py FILE MODEL_FOLDER [CHUNKS_PER_COMMIT]", file=sys.stderr)
        return 2
    begin, cpu = time.monotonic(), time.process_time()
    try:
        Corpus.open(argv[1]).database.close()
        done = embed(sqlite3.connect(argv[1]), argv[2], int(argv[3]) if len(argv) == 4 else BATCH,
                     lambda done, total: print(f"{done:,} of {total:,} chunks, {time.monotonic() - begin:.0f} s", flush=True))
    except (BadCorpus, BadModel, sqlite3.Error) as mistake:
        print(f"embeddings: {argv[1]}: {mistake}", file=sys.stderr)
        return 2
    print(f"embedded {done:,} chunks in {time.monotonic() - begin:.1f} s ({time.process_time() - cpu:.1f} s of CPU)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
