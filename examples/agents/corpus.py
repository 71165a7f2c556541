"""A corpus of chunks in SQLite: search by BM25, embeddings, or both, patterns, and whole documents.

Corpus.of({ID: TEXT}) indexes chunks in memory. Corpus.open(FILE) reads a file created by corpus.py:

    corpus.py CHUNKS.jsonl FILE         lines {"id": ID, "document": ID, "text": TEXT}
    embeddings.py FILE MODEL_FOLDER     adds the embeddings, which the searches "dense" and "hybrid" need

Needs only the standard library and, for embeddings, numpy.
"""
import json
import signal
import sqlite3
import sys

TABLE = "CREATE VIRTUAL TABLE chunks USING fts5(id UNINDEXED, document UNINDEXED, text, tokenize='porter unicode61')"
PATTERN_S = 2  # longest search by a pattern
KINDS = ("bm25", "dense", "hybrid")
RRF_K = 60  # Cormack et al., SIGIR 2009
FUSED = 100  # chunks of each ranking that are fused, or more for a longer result


class BadCorpus(Exception):
    """The corpus cannot be read."""


class SlowPattern(Exception):
    """A pattern took too long."""


def quoted(query):
    """A query as a disjunction of its words, without FTS5's operators."""
    return " OR ".join('"' + word.replace('"', '""') + '"' for word in query.split())


def embeddings():
    """The module that needs numpy."""
    try:
        import embeddings

        return embeddings
    except ImportError as missing:
        raise BadCorpus(f"embeddings need numpy ({missing}): use a Python that has it, without -S") from None


def fuse(rankings):
    """Reciprocal rank fusion: the items of all rankings by the sum of 1 / (RRF_K + rank). Ties keep the first ranking's order."""
    scores = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking, 1):
            scores[item] = scores.get(item, 0) + 1 / (RRF_K + rank)
    return sorted(scores, key=lambda item: -scores[item])


class Corpus:
    """Chunks are (id, text). A chunk's document is what its id says before "#", unless the corpus names another."""

    def __init__(self, database, name="the corpus"):
        self.database, self.name, self.vectors = database, name, None

    @classmethod
    def of(cls, chunks):
        corpus = cls(sqlite3.connect(":memory:"))
        corpus.add((id, id.partition("#")[0], text) for id, text in chunks.items())
        return corpus

    @classmethod
    def open(cls, path):
        try:
            corpus = cls(sqlite3.connect(f"file:{path}?mode=ro", uri=True), path)
            corpus.database.execute("SELECT id, document FROM chunks WHERE chunks MATCH 'a' LIMIT 1").fetchall()
        except sqlite3.Error as error:
            raise BadCorpus(f"{path} is not an indexed corpus ({error}): make one with corpus.py CHUNKS.jsonl {path}") from None
        return corpus

    def add(self, rows):
        self.database.execute(TABLE)
        self.database.executemany("INSERT INTO chunks (id, document, text) VALUES (?, ?, ?)", rows)
        self.database.commit()

    def embed(self, folder):
        """Embeds the chunks in memory with the model in a folder."""
        module = embeddings()
        try:
            module.embed(self.database, folder)
        except module.BadModel as bad:
            raise BadCorpus(str(bad)) from None

    def use_embeddings(self):
        """Loads the embeddings. Fails if the corpus has none, or if numpy is missing."""
        self.vectors = embeddings().Vectors(self.database, self.name)

    def search(self, query, limit=50, kind="bm25"):
        """The best chunks, the best first: with any word of the query (bm25), with the closest embeddings (dense), or both."""
        if not query.split():
            return []
        if kind == "bm25":
            return self.search_words(query, limit)
        if self.vectors is None:
            self.use_embeddings()
        if kind == "dense":
            return self.vectors.search(query, limit)
        each = max(limit, FUSED)
        return fuse([self.search_words(query, each), self.vectors.search(query, each)])[:limit]

    def search_words(self, query, limit):
        return self.database.execute("SELECT id, text FROM chunks WHERE chunks MATCH ? ORDER BY bm25(chunks), rowid LIMIT ?",
                                     (quoted(query), limit)).fetchall()

    def grep(self, pattern, limit=50):
        """The chunks with a match of a regular expression, in the corpus's order. Fails for one that is invalid or slow."""
        import re

        expression = re.compile(pattern)
        found = []
        signal.signal(signal.SIGALRM, raise_slow)
        signal.setitimer(signal.ITIMER_REAL, PATTERN_S)
        try:
            for id, text in self.database.execute("SELECT id, text FROM chunks ORDER BY rowid"):
                if expression.search(text):
                    found.append((id, text))
                if len(found) == limit:
                    break
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return found

    def document(self, id):
        return self.database.execute("SELECT id, text FROM chunks WHERE document = ? ORDER BY rowid", (id,)).fetchall()


def raise_slow(*_):
    raise SlowPattern()


def rows_of(path):
    """The lines of a file of chunks, as rows."""
    rows = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                chunk = json.loads(line)
                rows.append((chunk["id"], chunk.get("document") or chunk["id"].partition("#")[0], chunk["text"]))
            except (ValueError, KeyError, TypeError, AttributeError):
                raise BadCorpus(f"{path}, line {number} is not an object with the texts 'id' and 'text'") from None
    return rows


def main(argv):
    if len(argv) != 3:
        print("usage: corpus.py CHUNKS.jsonl FILE", file=sys.stderr)
        return 2
    try:
        Corpus(sqlite3.connect(argv[2])).add(rows_of(argv[1]))
    except (OSError, BadCorpus, sqlite3.Error) as mistake:
        print(f"corpus: {argv[2]}: {mistake}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
