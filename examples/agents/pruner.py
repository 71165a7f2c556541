#!/usr/bin/env python3
"""Searches a corpus and prunes its own context, like Context-1's harness (Chroma, 2026).

    OPENAI_BASE_URL=http://host:port/v1 OPENAI_API_KEY=... INGOT_EPISODE_ID=... pruner.py TASK.json

TASK.json; all fields except the first two are optional:

    {"question": "text", "chunks": {"ID": "text"},        or "corpus": "FILE" that corpus.py made
     "system": "text",
     "search": "bm25",                                    or "dense" or "hybrid", for a corpus with embeddings (embeddings.py)
     "model": "FOLDER",                                   embeds "chunks" with this model, for such a search
     "context": 32768, "soft": 0.5, "hard": 0.75,         tokens of the context, and shares of it
     "page": 6, "search_tokens": 4096, "reserve": 1024,   chunks of a search, its tokens at most, and tokens kept for the answer
     "max_turns": 64, "max_tokens": 256}

    search_corpus(query)     the best chunks that no earlier call has shown
    grep_corpus(pattern)     chunks with a match of a regular expression, also without those shown before
    read_document(doc_id)    all chunks of a document
    prune_chunks(chunk_ids)  removes chunks from the context

Each result ends with "[Token usage: 14,203/32,768]". Above the soft limit, a note suggests pruning or answering. Above
the hard limit, every tool except prune_chunks is rejected. Pruned chunks are removed from the messages but not from the
posted facts. The answer is a message without a call: a ranked list of chunk ids. Posts the facts `seen`, `returned`,
and `pruned` for the reward term `retrieval`, and prints the returned ids. Exit codes: 0, 1 if the server could not be
reached, 2 for invalid arguments.
"""
import sys

sys.path.insert(0, __file__.rpartition("/")[0] or ".")
import harness  # noqa: E402


def tool(name, parameter, schema):
    return {"type": "function", "function": {
        "name": name, "parameters": {"type": "object", "properties": {parameter: schema}}}}


TEXT = {"type": "string"}
TOOLS = [tool("search_corpus", "query", TEXT), tool("grep_corpus", "pattern", TEXT), tool("read_document", "doc_id", TEXT),
         tool("prune_chunks", "chunk_ids", {"type": "array", "items": TEXT})]


class Context:
    """The messages and their length in tokens. A tool's result is a list of chunks, so that chunks can be removed."""

    def __init__(self, task):
        self.limit = task.get("context", 32768)
        self.soft, self.hard = int(self.limit * task.get("soft", 0.5)), int(self.limit * task.get("hard", 0.75))
        self.messages = [{"role": "system", "content": task["system"]}] if task.get("system") else []
        self.messages.append({"role": "user", "content": task["question"]})
        self.results = []  # (message, chunks, lines below them): the message is written again when a chunk is pruned
        self.tokens_per_byte = 0.25

    def bytes(self):
        return sum(len(harness.text_of(m).encode()) + len(str(m.get("tool_calls") or "")) for m in self.messages)

    def tokens(self):
        return int(self.bytes() * self.tokens_per_byte)

    def tokens_of(self, text):
        return int(len(text.encode()) * self.tokens_per_byte)

    def add_reply(self, reply, counted):
        """Adds the model's turn. `counted` is the server's count of the context, or None."""
        self.messages.append(reply)
        if counted:
            self.tokens_per_byte = counted / max(1, self.bytes())

    def add_result(self, identity, chunks, note):
        message, chunks = {"role": "tool", "tool_call_id": identity, "content": ""}, dict(chunks)
        below = [note] if note or chunks else ["nothing"]
        self.messages.append(message)
        write(message, chunks, below)
        self.results.append((message, chunks, below + [self.usage()]))
        write(*self.results[-1])

    def usage(self):
        used = self.tokens()
        text = f"[Token usage: {used:,}/{self.limit:,}]"
        return f"{text}\nMore than {self.soft:,} tokens are used: prune chunks or answer." if used > self.soft else text

    def shown(self):
        return {id for _, chunks, _ in self.results for id in chunks}

    def prune(self, ids):
        for result in self.results:
            shown = result[1]
            for id in shown.keys() & ids:
                del shown[id]
            write(*result)


def write(message, chunks, below):
    message["content"] = "\n".join([f"[{id}] {text}" for id, text in chunks.items()] + [line for line in below if line])


class Searcher:
    """The tools, and what the reward needs of the whole episode: ids in the order in which they were seen, and the prunes."""

    def __init__(self, task, corpus, context):
        self.corpus, self.context, self.turn = corpus, context, 0
        self.kind = task.get("search", "bm25")
        self.page, self.reserve = task.get("page", 6), task.get("reserve", 1024)
        self.search_tokens = task.get("search_tokens", 4096)
        self.seen, self.pruned = {}, []
        self.tools = {"search_corpus": self.search, "grep_corpus": self.grep, "read_document": self.read,
                      "prune_chunks": self.prune}

    def check_room(self):
        used, hard = self.context.tokens(), self.context.hard
        if used > hard:
            raise harness.Refused(f"refused: {used:,} tokens are used of at most {hard:,}. Prune chunks or answer.")

    def shown(self, found, most):
        """The chunks that fit, remembered as seen."""
        room = min(self.search_tokens, self.context.limit - self.reserve - self.context.tokens())
        fitting = []
        for id, text in found[:most]:
            room -= self.context.tokens_of(f"[{id}] {text}\n")
            if room < 0:
                break
            fitting.append((id, text))
        self.seen.update(fitting)
        left = len(found[:most]) - len(fitting)
        return fitting, f"{left} more did not fit" if left else ""

    def search(self, arguments):
        self.check_room()
        found = self.corpus.search(harness.argument(arguments, "query"), self.page + len(self.seen), self.kind)
        return self.shown([(id, text) for id, text in found if id not in self.seen], self.page)

    def grep(self, arguments):
        self.check_room()
        from corpus import SlowPattern
        import re

        try:
            found = self.corpus.grep(harness.argument(arguments, "pattern"), self.page + len(self.seen))
        except (re.error, OverflowError, RecursionError) as mistake:
            raise harness.Refused(f"error: the pattern is invalid: {mistake}") from None
        except SlowPattern:
            raise harness.Refused("error: the pattern took too long") from None
        return self.shown([(id, text) for id, text in found if id not in self.seen], self.page)

    def read(self, arguments):
        self.check_room()
        chunks = self.corpus.document(harness.argument(arguments, "doc_id"))
        if not chunks:
            raise harness.Refused("error: no such document")
        present = self.context.shown()
        return self.shown([(id, text) for id, text in chunks if id not in present], len(chunks))

    def prune(self, arguments):
        ids = {id for id in harness.argument(arguments, "chunk_ids", list) if isinstance(id, str)} & self.context.shown()
        if not ids:
            raise harness.Refused("error: none of these chunks is in the context")
        self.context.prune(ids)
        self.pruned.append({"turn": self.turn, "ids": sorted(ids)})
        return [], f"pruned {len(ids)}"

    def carry_out(self, call):
        """The chunks and the note of a call's result."""
        try:
            name, arguments = harness.read_call(call)
            if name not in self.tools:
                raise harness.Refused("error: no such tool")
            return self.tools[name](arguments)
        except harness.Refused as refusal:
            return [], str(refusal)


def ids_in(answer, seen):
    """The seen ids that the answer names, in its order."""
    found = {}
    for word in answer.replace(",", " ").replace('"', " ").replace("[", " ").replace("]", " ").split():
        if word in seen:
            found[word] = True
    return list(found)


def open_corpus(task):
    from corpus import Corpus

    if isinstance(task.get("chunks"), dict) and all(isinstance(text, str) for text in task["chunks"].values()):
        corpus = Corpus.of(task["chunks"])
        if "model" in task:
            corpus.embed(task["model"])
        return corpus
    if not isinstance(task.get("corpus"), str):
        raise harness.Mistake("the task has neither 'chunks', an object of texts, nor 'corpus', a file")
    return Corpus.open(task["corpus"])


def corpus_of(task):
    from corpus import KINDS, BadCorpus

    kind = task.get("search", "bm25")
    if kind not in KINDS:
        raise harness.Mistake(f"the field 'search' is '{kind}': use one of {', '.join(KINDS)}")
    try:
        corpus = open_corpus(task)
        if kind != "bm25":
            corpus.use_embeddings()
        return corpus
    except BadCorpus as bad:
        raise harness.Mistake(str(bad)) from None


def play(task):
    context, model = Context(task), harness.Model()
    searcher = Searcher(task, corpus_of(task), context)
    answer = None
    for searcher.turn in range(task.get("max_turns", 64)):
        reply = model.ask(context.messages, TOOLS, task.get("max_tokens", 256))
        context.add_reply(reply, model.tokens)
        calls = harness.calls_of(reply)
        if not calls:
            answer = harness.text_of(reply)
            break
        for call in calls:
            chunks, note = searcher.carry_out(call)
            context.add_result(str(call.get("id", "")), chunks, note)
    facts = {"seen": list(searcher.seen), "pruned": searcher.pruned}
    returned = ids_in(answer or "", searcher.seen)
    if answer is not None:
        facts["returned"] = returned
    harness.post(0.0, {"search/seen": len(searcher.seen), "search/prunes": len(searcher.pruned),
                       "search/turns": searcher.turn + 1}, facts)
    return harness.dumps(returned)


if __name__ == "__main__":
    sys.exit(harness.main(sys.argv, "pruner", play, {"question": str}, system=str, search=str, model=str, context=int, soft=harness.NUMBER, hard=harness.NUMBER,
                          page=int, search_tokens=int, reserve=int, max_turns=int, max_tokens=int))
