#!/usr/bin/env python3
"""examples/search and the embeddings of examples/agents: search_test.py EXAMPLES_DIR [MODEL_FOLDER]

Without numpy, only what needs none is tested. MODEL_FOLDER is all-MiniLM-L6-v2's; without it, the model has random weights.
"""
import importlib.util
import json
import pathlib
import sqlite3
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from scripted_model import call, check, run, say  # noqa: E402

EXAMPLES = pathlib.Path(sys.argv[1]).resolve()
MODEL = pathlib.Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else None
AGENTS, SEARCH = EXAMPLES / "agents", EXAMPLES / "search"
sys.path[:0] = [str(AGENTS), str(SEARCH)]
HAS_NUMPY = importlib.util.find_spec("numpy") is not None
CHUNKS = {"d1": "the red fox sleeps", "d2": "a fox hunts hens", "d3": "red paint dries", "d4": "hens lay eggs", "d5": "a stone sinks"}

# Four synsets of nouns: a wheel is part of a car, which is a vehicle, as is a sled.
NOUNS = ("00000001 06 n 02 car 0 auto 0 002 @ 00000003 n 0000 %p 00000002 n 0000 | a vehicle with four wheels; \"he has a car\"\n"
         "00000002 06 n 01 wheel 0 002 @ 00000004 n 0000 #p 00000001 n 0000 | a rapid disk that the carrier rolls on during trips\n"
         "00000003 06 n 02 vehicle 0 conveyance 0 001 @ 00000004 n 0000 | a thing that moves people\n"
         "00000004 06 n 02 disk 0 round 0 000 | a flat thing\n"
         "00000005 06 n 02 carrier 0 transporter 0 000 | one that moves goods\n"
         "00000006 06 n 02 trip 0 journey 0 000 | going somewhere\n")
VERBS = "00000001 00 v 01 roll 0 000 01 + 08 00 | turn\n"  # without a synonym
ADJECTIVES = "00000001 00 a 02 rapid 0 speedy(a) 0 000 | acting fast\n"


def python(*argv, code=0, isolated=True):
    done = subprocess.run([sys.executable, *(["-I"] if isolated else []), *map(str, argv)], capture_output=True, text=True, timeout=100)
    check(done.returncode == code and "Traceback" not in done.stderr, f"{argv}: {done}")
    return done.stdout + done.stderr


def corpus_file(folder, chunks=CHUNKS):
    source, path = pathlib.Path(folder, "chunks.jsonl"), pathlib.Path(folder, "corpus.db")
    source.write_text("".join(json.dumps({"id": id, "text": text}) + "\n" for id, text in chunks.items()))
    path.unlink(missing_ok=True)
    python(AGENTS / "corpus.py", source, path)
    return path


def mini_wordnet(folder):
    index = {"noun": [("car", 1), ("auto", 1), ("wheel", 2), ("vehicle", 3), ("conveyance", 3), ("disk", 4), ("round", 4), ("carrier", 5),
                      ("transporter", 5), ("trip", 6), ("journey", 6)], "adj": [("rapid", 1), ("speedy", 1)], "verb": [("roll", 1)], "adv": []}
    for part, words in index.items():
        pathlib.Path(folder, f"data.{part}").write_text("  1 a license\n" + {"noun": NOUNS, "verb": VERBS, "adj": ADJECTIVES}.get(part, ""))
        rows = [f"{word} {part[0]} 1 0 1 1 {offset:08}\n" for word, offset in words]
        pathlib.Path(folder, f"index.{part}").write_text("  1 a license\n" + "".join(rows))
        pathlib.Path(folder, f"{part}.exc").write_text("trippen trip\n" if part == "noun" else "")


def case_wordnet():
    """The question names a chunk and describes the other one in other words."""
    with tempfile.TemporaryDirectory() as folder:
        mini_wordnet(folder)
        argv = [SEARCH / "wordnet.py", "--wordnet", folder, "--chunks", 5, "--questions", 3]
        told = python(*argv, "--out", folder + "/a", isolated=False)
        check("5 chunks and 0 questions" in told, f"'four' and 'wheels' of the car's gloss have no other word: {told}")
        import wordnet

        net = wordnet.WordNet(folder)
        car, wheel = net.synsets["noun", "00000001"], net.synsets["noun", "00000002"]
        check(wordnet.text_of(net, wheel).endswith("trips. Part of: auto.") and car.gloss == "a vehicle with four wheels", car.gloss)
        question, description = wordnet.question_of(net, wheel, car, False)
        check(question == "Which part of car and is a speedy round that the transporter on during journey?", question)
        check(net.lemma("trippen") == "trip" and net.lemma("disks") == "disk" and net.lemma("rolled") == "roll" and net.lemma("upon") is None, "lemmas")
        check(not wordnet.stems(description) & wordnet.stems(wordnet.text_of(net, wheel) + wordnet.text_of(net, car)), description)
        python(*argv, "--out", folder + "/b", isolated=False)
        check(pathlib.Path(folder, "a/chunks.jsonl").read_bytes() == pathlib.Path(folder, "b/chunks.jsonl").read_bytes(), "same bytes")
        pathlib.Path(folder, "data.noun").write_text("no synset\n")
        check("is not WordNet's folder" in python(*argv, "--out", folder + "/c", code=1, isolated=False), "a file of another form")


def case_fusion():
    import corpus

    check(corpus.fuse([["a", "b", "c"], ["c", "b", "d"]]) == ["c", "b", "a", "d"], "1/61 + 1/63 > 2/62, and a's 1/61 > d's 1/63")
    check(corpus.fuse([[], ["x"]]) == ["x"] and corpus.fuse([["p", "q"], ["q", "p"]]) == ["p", "q"], "ties keep the order")


def case_input():
    """What is missing is named, with the command that makes it."""
    pruner = AGENTS / "pruner.py"

    def mistake(task, words):
        done, _ = run(pruner, [], {"question": "q", **task})
        check(done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr, f"wanted '{words}': {done}")

    with tempfile.TemporaryDirectory() as folder:
        mistake({"chunks": CHUNKS, "search": "colbert"}, "the field 'search' is 'colbert': use one of bm25, dense, hybrid")
        mistake({"chunks": CHUNKS, "search": "hybrid", "model": folder}, "embeddings need numpy")  # run() starts Python with -S
        mistake({"corpus": str(corpus_file(folder)), "search": "dense"}, "use a Python that has it, without -S")
        pathlib.Path(folder, "plain.db").write_bytes(b"")
        if HAS_NUMPY:
            argv = [AGENTS / "embeddings.py"]
            check("is not an indexed corpus" in python(*argv, folder + "/plain.db", folder, code=2), "a corpus without an index")
            check("has no MiniLM model" in python(*argv, corpus_file(folder), folder, code=2), "a folder without a model")
            check("usage" in python(*argv, "a", "b", "0", code=2), "usage")
            told = python(SEARCH / "recall.py", corpus_file(folder), __file__, code=1)
            check("search_test.py: JSONDecodeError" in told, told)


def write_model(folder):
    """A BERT with random weights: 16 wide, 2 layers, and a vocabulary of letters and their continuations."""
    import numpy as np

    rng, size, pieces = np.random.default_rng(1), 16, ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces += list(letters) + ["##" + letter for letter in letters] + ["fox", "hens", "red"]
    shapes = {"embeddings.word_embeddings.weight": (len(pieces), size), "embeddings.position_embeddings.weight": (256, size),
              "embeddings.token_type_embeddings.weight": (2, size), "embeddings.LayerNorm.weight": (size,), "embeddings.LayerNorm.bias": (size,)}
    for i in range(2):
        name = f"encoder.layer.{i}."
        for part, rows, columns in (("attention.self.query", size, size), ("attention.self.key", size, size), ("attention.self.value", size, size),
                                    ("attention.output.dense", size, size), ("intermediate.dense", 32, size), ("output.dense", size, 32)):
            shapes |= {f"{name}{part}.weight": (rows, columns), f"{name}{part}.bias": (rows,)}
        for part in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{name}{part}.weight": (size,), f"{name}{part}.bias": (size,)}
    header, data = {}, b""
    for name, shape in shapes.items():
        raw = rng.normal(size=shape).astype(np.float32).tobytes()
        header["bert." + name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (1 if len(text) % 4 == 0 else 0)  # the tensors are not aligned
    pathlib.Path(folder).mkdir(exist_ok=True)
    pathlib.Path(folder, "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    pathlib.Path(folder, "vocab.txt").write_text("\n".join(pieces) + "\n")
    pathlib.Path(folder, "config.json").write_text(json.dumps(
        {"num_hidden_layers": 2, "num_attention_heads": 4, "layer_norm_eps": 1e-12, "hidden_size": size}))
    return pathlib.Path(folder)


def case_model():
    """A batch's padding changes nothing, and the real model gives the published numbers."""
    import minilm
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        model = minilm.MiniLM(write_model(folder))
        check(model.tokenizer.encode("Fóx ox") == [2, 56, 4 + 14, 30 + 23, 3], model.tokenizer.encode("Fóx ox"))
        check(model.tokenizer.encode("漢 fox") == [2, 1, 56, 3], "unknown pieces")
        texts = list(CHUNKS.values()) + ["", "x" * 5000]
        together, alone = model.embed(texts), np.concatenate([model.embed([text]) for text in texts])
        check(np.abs(together - alone).max() < 1e-5 and np.abs(np.linalg.norm(together, axis=1) - 1).max() < 1e-5, together - alone)
    check(abs(float(minilm.erf(np.float64(0.5))) - 0.5204999) < 2e-7, "erf")
    if MODEL is not None:
        a, b, c = minilm.MiniLM(MODEL).embed(["This is an example sentence", "A man is eating food.", "A man is eating a piece of bread."])
        # The first numbers of the model card's example, and its similarity, by sentence-transformers.
        check(np.abs(a[:4] - [0.0676569, 0.0634959, 0.0487131, 0.0793050]).max() < 1e-5 and abs(b @ c - 0.7553) < 1e-3, (a[:4], b @ c))


def case_embeddings():
    """Chunks are embedded once, a stopped run continues, and what is incomplete or damaged is named."""
    with tempfile.TemporaryDirectory() as folder:
        model, path = MODEL or write_model(folder + "/model"), corpus_file(folder)
        argv, recall = [AGENTS / "embeddings.py", path, model], [SEARCH / "recall.py", path, pathlib.Path(folder, "queries.jsonl")]
        recall[2].write_text(json.dumps({"kind": "name", "query": "red fox", "relevant_ids": ["d1"]}) + "\n")
        check("has no embeddings: add them with embeddings.py" in python(*recall, code=2), "no embeddings")
        told = python(*argv, 2)
        check("2 of 5 chunks" in told and "embedded 5 chunks in" in told and " s of CPU)" in told, told)
        check("embedded 0 chunks" in python(*argv), "embedded once")
        told = python(*recall, 1, 3)
        check("| name (1) | bm25 | 1.000 | 1.000 |" in told and "| name (1) | hybrid |" in told, told)
        check("name: hybrid minus bm25 at 3: +0.000 (+0.000 to +0.000)" in told, told)
        database = sqlite3.connect(path)
        with database:
            database.execute("DELETE FROM vectors WHERE first > 2")
        check("has embeddings for 2 of 5 chunks: finish with" in python(*recall, code=2), "incomplete")
        check("embedded 3 chunks" in python(*argv), "the rest")
        if MODEL is None:
            other = write_model(folder + "/other")
            check("it has embeddings by" in python(argv[0], path, other, code=2), "another model")
        with database:
            database.execute("UPDATE vectors SET data = x'00' WHERE first = 1")
        check("has damaged embeddings" in python(*recall, code=2), "damaged")


def case_pruner():
    """The agent searches by words and meaning, in a file or in the task's own chunks."""
    from corpus import Corpus

    with tempfile.TemporaryDirectory() as folder:
        model = MODEL or write_model(folder + "/model")
        memory = Corpus.of(CHUNKS)
        memory.embed(model)
        path = corpus_file(folder)
        python(AGENTS / "embeddings.py", path, model)
        wanted = [id for id, _ in memory.search("red hens", 3, "hybrid")]
        check(wanted == [id for id, _ in Corpus.open(path).search("red hens", 3, "hybrid")], "the file and the memory agree")
        check({id for id, _ in memory.search("nothing", 9, "dense")} == set(CHUNKS), "every chunk has a distance")
        check(memory.search("unwritten", 9) == [] and memory.search(" ", 9, "hybrid") == [], "BM25 needs a word")
        script = [call(("search_corpus", {"query": "red hens"})), say(wanted[0])]
        done, server = run(AGENTS / "pruner.py", script, {"question": "q", "corpus": str(path), "search": "hybrid", "page": 3},
                           python=[sys.executable, "-I"])
        check(json.loads(done.stdout or "[]") == wanted[:1] and server.posts[0]["facts"]["seen"] == wanted, (done, server.posts))
        if MODEL is not None:
            meant = [id for id, _ in memory.search("boulder in water", 1, "dense")]
            check(meant == ["d5"] and memory.search("boulder in water", 1) == [], "no word is shared with 'a stone sinks'")


def main():
    cases = [case_wordnet, case_fusion, case_input]
    if HAS_NUMPY:
        cases += [case_model, case_embeddings, case_pruner]
    else:
        print("no numpy: the embeddings are not tested")
    for case in cases:
        case()
        print(f"{case.__name__.removeprefix('case_'):12} ok")


if __name__ == "__main__":
    main()
