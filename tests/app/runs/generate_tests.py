#!/usr/bin/env python3
"""`ingot tasks generate` with a scripted model: generate_tests.py BINARY SOURCE_DIR CASE.

tasks     an honest model: chains, relevant chunks and distractors; what a task's fields are
checks    a model that makes each mistake that a stage must notice
server    failures of the server, a stopped generation, and mistakes in how the command is called
"""
import collections
import contextlib
import http.server
import json
import os
import pathlib
import subprocess
import threading

from ingot_runs import check, main

# A chain of three chunks: the keeper of the lighthouse, his boat, and the boat's builder. "b2" also names the builder.
CHUNKS = {
    "a": "The lighthouse of Skarn was kept for forty years by Olaf Brandt.\nHe was born in a village without a road.",
    "b": "Olaf Brandt crossed the bay each morning in a small boat that he called Petrel.",
    "c": "Petrel was built from larch by Ingrid Moe, who lost two fingers at her bench.",
    "b2": "Only one larch boat with that name was ever made, and Ingrid Moe made it.",
    "d": "Another keeper of a lighthouse fished from a boat without a name.",
}
FACTS = {  # by the first fact's chunk: (facts, answer)
    "a": ([("a", "kept for forty years by Olaf Brandt", "he tended a light for four decades"),
           ("a", "born in a village without a road", "no road led to his birthplace")], "Olaf Brandt"),
    "b": ([("b", "Olaf Brandt crossed the bay each morning", "its owner rowed over the water daily"),
           ("b", "a small boat that he called Petrel", "a little craft")], "Petrel"),
    "c": ([("c", "Petrel was built from larch by Ingrid Moe", "made of a conifer's wood"),
           ("c", "who lost two fingers at her bench", "an accident cost her part of a hand")], "Ingrid Moe"),
}
QUESTIONS = {"Olaf Brandt": "Who tended a light for four decades though no road led to his birthplace?",
             "Petrel": "What is the little craft called in which that man rowed over the water daily?",
             "Ingrid Moe": "Which woman with an injured hand made, of a conifer's wood, the craft of that man?"}


CUT_OFF = "the connection ends within the reply"


class Server:
    """Answers each stage by a function of the request's data. `wrong(stage, data, number)` may give another answer: a value, text,
    or an HTTP status; None leaves it. Counts the requests by stage."""

    def __init__(self, wrong=lambda *_: None):
        self.wrong, self.counts, self.keys, self.lock = wrong, collections.Counter(), set(), threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(inner):
                body = json.loads(inner.rfile.read(int(inner.headers["content-length"])))
                stage, data = body["response_format"]["json_schema"]["name"], json.loads(body["messages"][1]["content"])
                with self.lock:
                    self.counts[stage] += 1
                    self.keys.add(inner.headers.get("Authorization"))
                    number = self.counts[stage]
                answer = self.wrong(stage, data, number)
                answer = HONEST[stage](data) if answer is None else answer
                status = answer if isinstance(answer, int) else 200
                content = answer if isinstance(answer, str) else json.dumps(answer)
                text = json.dumps({"choices": [{"message": {"content": content}}]}).encode()
                inner.send_response(status)
                if 300 <= status < 400:
                    inner.send_header("Location", "http://127.0.0.1:9/")
                inner.send_header("content-length", str(len(text) + (answer == CUT_OFF)))
                inner.end_headers()
                with contextlib.suppress(OSError):
                    inner.wfile.write(text)

            def log_message(inner, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"


def gather(data):
    given = [document["id"] for document in data["documents"]]
    if "link" in data:
        place = next((id for id in given if id in FACTS and any(data["link"] in quote for _, quote, _ in FACTS[id][0])), None)
    else:
        place = given[0]
    facts, answer = FACTS.get(place, ([], "none"))
    return {"facts": [{"id": id, "quote": quote, "fact": fact} for id, quote, fact in facts], "answer": answer, "names": [answer]}


def answer(data):
    asked = next((name for name, question in QUESTIONS.items() if question == data["question"]), "")
    quotes = [{"id": id, "quote": quote} for facts, name in FACTS.values() if name == asked for id, quote, _ in facts if asked in quote]
    return {"answer": f"the {asked.upper()}." if asked else "", "quotes": quotes}


def distract(data):
    kinds = {"b2": ("support", "Ingrid Moe made it") if data["answer"] == "Ingrid Moe" else ("unrelated", ""), "d": ("distractor", "Another keeper of a lighthouse")}
    found = [(document["id"], *kinds.get(document["id"], ("unrelated", ""))) for document in data["documents"]]
    return {"documents": [{"id": id, "kind": kind, "quote": quote} for id, kind, quote in found]}


HONEST = {"gather": gather, "obfuscate": lambda data: {"question": QUESTIONS[data["answer"]]}, "answer": answer,
          "known": lambda _: {"answer": ""}, "distract": distract}


class Generation:
    """One folder with the chunks, and the command."""

    def __init__(self, ingot):
        self.ingot, self.folder = ingot, pathlib.Path(ingot.folder)
        self.chunks, self.out = self.folder / "chunks.jsonl", self.folder / "tasks.jsonl"
        self.write(CHUNKS)

    def write(self, chunks):
        self.chunks.write_text("".join(json.dumps({"id": id, "text": text}) + "\n" for id, text in chunks.items()), encoding="utf-8")

    def clear(self):
        for path in (self.out, pathlib.Path(f"{self.out}.part")):
            path.unlink(missing_ok=True)

    def run(self, url, *options, code=0):
        argv = [self.ingot.binary, "tasks", "generate", self.chunks, self.out, *(["--url", url] if url else []), "--python", "/usr/bin/python3", *options]
        done = subprocess.run([*map(str, argv)], capture_output=True, text=True, timeout=100,
                              env={**os.environ, "TEST_KEY": "secret-key", "http_proxy": "http://127.0.0.1:9"})
        output = done.stdout + done.stderr
        check(done.returncode == code and "Traceback" not in output and "secret-key" not in output, f"{options}: {done.returncode}: {output}")
        return output

    def outcomes(self):
        """The rows of OUT.part, after its key."""
        return [json.loads(line) for line in pathlib.Path(f"{self.out}.part").read_text(encoding="utf-8").splitlines()[1:]]

    def tasks(self):
        return {task["task_id"]: task for task in map(json.loads, self.out.read_text(encoding="utf-8").splitlines())}


def case_tasks(ingot):
    generation, server = Generation(ingot), Server()
    output = generation.run(server.url, "--hops", 3, "--count", 9, "--documents", 3, "--key-env", "TEST_KEY", "--domain", "search")
    check("3 tasks in" in output and "every chunk was tried: 3 tasks of 9" in output and server.keys == {"Bearer secret-key"}, output)
    check("dropped gather           2" in output, f"b2 and d have no facts: {output}")
    tasks = generation.tasks()
    chain = tasks["generated-a"]
    check(chain["question"] == QUESTIONS["Ingrid Moe"] and chain["answer"] == "Ingrid Moe" and chain["hops"] == 3, chain)
    check(chain["relevant_ids"] == ["a", "b", "c", "b2"] and chain["answer_ids"] == ["c", "b2"], chain)
    check(chain["distractor_ids"] == ["d"] and chain["domain"] == "search" and len(chain["facts"]) == 6, chain)
    check(set(chain["names"]) == {"Ingrid Moe", "Petrel", "Olaf Brandt"}, chain)
    check(tasks["generated-b"]["hops"] == 2 and tasks["generated-c"]["hops"] == 1, tasks)
    again = generation.run(server.url, "--hops", 3, "--count", 2, "--documents", 3, "--key-env", "TEST_KEY", "--domain", "search")
    before = sum(server.counts.values())
    check("2 tasks in" in again and sum(server.counts.values()) == before, "the outcomes are kept in OUT.part")
    check("by other options or chunks" in generation.run(server.url, "--hops", 2, code=2), "other options")
    generation.clear()
    output = generation.run(server.url, "--hops", 3, "--min-hops", 3, "--documents", 3, "--distractors", 0)
    check("1 tasks in" in output and "dropped short" in output and generation.tasks()["generated-a"]["distractor_ids"] == [], output)


def case_checks(ingot):
    """Each mistake is asked for again once, with the reason; if it stays, the chunk is dropped for the reason."""
    generation = Generation(ingot)
    fact = {"id": "a", "quote": "kept for forty years by Olaf Brandt", "fact": "f"}

    def facts(*changes, **fields):
        return {"facts": [{**fact, **change} for change in changes], "answer": "Olaf Brandt", "names": [], **fields}

    def only(stage, value, times=99):
        return lambda asked, _, number: value if asked == stage and number <= times else None

    mistakes = [
        ("gather", facts({"quote": "kept for fifty years by Olaf Brandt"}, {}), "does not stand in document a"),
        ("gather", facts({"id": "zz"}, {}), "'zz' is not the id of a given document"),
        ("gather", facts({}), "fewer than two facts"),
        ("gather", facts({}, {"fact": " "}), "fewer than two facts, or one has no text"),
        ("gather", facts({}, {}, answer="Nobody"), "the answer 'Nobody' stands in none of the quotes"),
        ("gather", facts({}, {}, answer=""), "the answer is not a short text"),
        ("gather", facts({}, {}, names=[7]), "the names are not a list of texts"),
        ("gather", {"facts": 7, "answer": "x", "names": []}, "the quotes are not a list"),
        ("gather", "no JSON {", "no JSON object with the fields facts, answer, names"),
        ("gather", "[" * 100000, "no JSON object"),
        ("obfuscate", {"question": "What did olaf  brandt tend for so long?"}, "the question mentions 'Olaf Brandt'"),
        ("obfuscate", {"question": "Who kept the lighthouse of Skarn was kept for a time?"}, "the question copies 'the lighthouse of skarn was kept'"),
        ("obfuscate", {"question": ["x"]}, "the question is not a text"),
        ("answer", {"answer": "Olaf Brandt", "quotes": [{"id": "a", "quote": "it was Olaf Brandt"}]}, "does not stand in document a"),
        ("answer", {"answer": "Knut", "quotes": []}, "'Knut' instead of 'Olaf Brandt'"),
        ("answer", {"answer": "Olaf Brandt", "quotes": []}, "no quote holds the answer"),
        ("known", {"answer": "olaf brandt"}, "is answered without documents"),
        ("distract", {"documents": [{"id": "d", "kind": "other", "quote": "fished from a boat"}]}, "d gives another answer"),
        ("distract", {"documents": [{"id": "d", "kind": "support", "quote": "fished from a boat"}]}, "the quote of support d lacks the answer"),
        ("distract", {"documents": [{"id": "d", "kind": "odd", "quote": ""}]}, "another kind or id"),
        ("gather", facts({}, {}, names=["\ud800"]), "no JSON object"),
    ]
    generation.write({id: CHUNKS[id] for id in ("a", "d")})
    dropped = ("--hops", 1, "--documents", 1, "--concurrency", 1)
    for stage, value, words in mistakes:
        generation.clear()
        server = Server(lambda asked, data, number, value=value, stage=stage: (
            {"facts": [], "answer": "", "names": []} if asked == "gather" and data["documents"][0]["id"] == "d"
            else value if asked == stage else None))
        output = generation.run(server.url, *dropped, code=2)
        reason, = [row["reason"] for row in generation.outcomes() if row["seed"] == "a"]
        check(words in reason and "no task passed the checks, of 2 chunks tried" in output, f"wanted '{words}': {reason}\n{output}")
    for stage, value, _ in mistakes[:1] + mistakes[10:11]:  # only the first answer is wrong
        generation.clear()
        rejected = []

        def once(asked, data, number, stage=stage, value=value):
            rejected.extend([data["rejected_before"]] if "rejected_before" in data and asked == stage else [])
            return value if asked == stage and data.get("documents", [{"id": "a"}])[0]["id"] == "a" and "rejected_before" not in data else None

        check("1 tasks in" in generation.run(Server(once).url, *dropped) and any(rejected), "the second answer counts, and the reason is told")
    generation.clear()
    thinking = 'I see {"facts": [], ...} and so: ' + json.dumps(facts({}, {"quote": "a village  without\na road"})) + " as asked"
    check("1 tasks in" in generation.run(Server(only("gather", thinking, 1)).url, *dropped, "--count", 1, "--seed", 3), "JSON in prose, other spaces")


def case_server(ingot):
    generation = Generation(ingot)
    few = ("--hops", 1, "--documents", 1, "--tries", 2, "--count", 3)
    for status, words in ((401, "answered 401"), (503, "answered 503"), (302, "answered 302")):
        generation.clear()
        output = generation.run(Server(lambda *_, status=status: status).url, *few, code=2)
        check(words in output and not generation.out.exists(), output)
    generation.clear()
    check("(2 tries); run the same command again to continue" in generation.run("http://127.0.0.1:9/v1", *few, code=2), "no server")
    check("give the server's with --url" in generation.run("", "--count", 1, code=2) or "OPENAI_BASE_URL" in os.environ, "no address")
    check("--min-hops is 3, but --hops is 2" in generation.run("http://h", "--min-hops", 3, code=2), "hops")

    generation.clear()
    output = generation.run(Server(lambda *_: CUT_OFF).url, *few, code=2)
    check("IncompleteRead" in output and "(2 tries)" in output, output)

    # The server fails after a while; the next start asks for the rest alone.
    generation.clear()
    server = Server(lambda stage, _, number: 400 if stage == "gather" and number > 3 else None)
    more = ("--hops", 1, "--documents", 1, "--count", 9, "--concurrency", 1)
    generation.run(server.url, *more, code=2)
    part = pathlib.Path(f"{generation.out}.part")
    check(len(part.read_text(encoding="utf-8").splitlines()) in (3, 4) and not generation.out.exists(), "two or three outcomes")
    with open(part, "a", encoding="utf-8") as file:
        file.write('{"seed": "a", "ta')  # a crash
    server.wrong, asked = (lambda *_: None), server.counts["gather"]
    output = generation.run(server.url, *more)
    check("3 tasks in" in output, output)
    check(server.counts["gather"] - asked <= 6 and len(part.read_text(encoding="utf-8").splitlines()) == 6, "the first chunks are not asked again")
    part.write_text("{\n", encoding="utf-8")
    output = generation.run(server.url, *few, code=2)
    check("is damaged: remove it" in output, output)
    for text, words in (("", "has no chunks"), ('{"id": "a", "text": "b"}\n{"id": "a", "text": "c"}\n', "line 2: expected"),
                        ('{"id": 3, "text": "b"}\n', "line 1: expected"),
                        ('{"id": "a", "text": "\\ud800"}\n', "valid Unicode"), ("nonsense\n", "line 1: expected")):
        generation.clear()
        generation.chunks.write_text(text, encoding="utf-8")
        check(words in generation.run(server.url, *few, code=2), words)
    generation.chunks.unlink()
    check("No such file" in generation.run(server.url, *few, code=2), "no file")


if __name__ == "__main__":
    main(case_tasks, case_checks, case_server)
