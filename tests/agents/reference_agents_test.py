#!/usr/bin/env python3
"""The agents of examples/agents against a scripted model: reference_agents_test.py EXAMPLES_DIR [CASE...]."""
import http.server
import json
import pathlib
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from scripted_model import Model, call, check, run, say  # noqa: E402

AGENTS = pathlib.Path(sys.argv[1], "agents")
LOOKUP = {"tools": [{"type": "function", "function": {"name": "lookup"}}], "tables": {"lookup": {"k": "kc", "m": "ma" * 40}}}


def answered(done, text):
    check(done.returncode == 0 and done.stdout == text + "\n", f"wanted {text!r}: {done}")


def mistaken(done, words):
    check(done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr, f"wanted '{words}': {done}")


def failed(done, words):
    check(done.returncode == 1 and words in done.stderr and "Traceback" not in done.stderr, f"wanted '{words}': {done}")


def case_calls():
    """Mistakes in how an agent is called, and a server that fails."""
    for name, field in (("pruner", "question"), ("truncator", "prompt"), ("summarizer", "prompt"), ("orchestrator", "prompt"),
                        ("react", "prompt")):
        agent = AGENTS / f"{name}.py"
        mistaken(run(agent, [], "{}")[0], f"'{field}' is missing")
        mistaken(run(agent, [], "no JSON")[0], "task.json")
        mistaken(run(agent, [], "[]")[0], "a task is a JSON object")
        mistaken(run(agent, [], {field: "x", "max_turns": "3"})[0], "'max_turns' is missing or has the wrong type")
        failed(run(agent, [400], {field: "x", "chunks": {}})[0], "answered 400")
        failed(run(agent, [], {field: "x", "chunks": {}}, OPENAI_BASE_URL="nonsense")[0], "OPENAI_BASE_URL is 'nonsense'")


CHUNKS = {"d1#0": "the red fox sleeps", "d1#1": "a fox hunts hens", "d2#0": "red paint dries", "d3#0": "hens lay eggs"}


def posted(model):
    check(len(model.posts) == 1, f"one reward is posted: {model.posts}")
    return model.posts[0]


def case_pruner():
    agent = AGENTS / "pruner.py"
    done, model = run(agent, [
        call(("search_corpus", {"query": "red"})), call(("search_corpus", {"query": "fox OR \"red"})),
        call(("read_document", {"doc_id": "d1"}), ("read_document", {"doc_id": "none"})), call(("grep_corpus", {"pattern": "^hens"})),
        call(("prune_chunks", {"chunk_ids": ["d2#0", 7, "unseen"]})), call(("prune_chunks", {"chunk_ids": ["d2#0"]})),
        say("d1#1, d3#0 then d9#9 and d1#1")], {"question": "who?", "chunks": CHUNKS})
    check(json.loads(done.stdout) == ["d1#1", "d3#0"], done)
    facts = posted(model)["facts"]
    check(facts["seen"] == ["d2#0", "d1#0", "d1#1", "d3#0"], facts)
    check(facts["pruned"] == [{"turn": 4, "ids": ["d2#0"]}] and facts["returned"] == ["d1#1", "d3#0"], facts)
    first, second = model.results(1)[0], model.results(2)[1]
    check("[d2#0] red paint dries" in first and "[Token usage: " in first and "/32,768]" in first, first)
    check("d2#0" not in second and "d1#0" not in second and "[d1#1]" in second, f"seen chunks are excluded: {second}")
    last = model.results(6)
    check("error: no such document" in last[3] and "[d3#0] hens" in last[4], last)
    check(not any("[d2#0]" in result for result in last) and "[d1#0]" in last[0], f"a pruned chunk leaves the messages: {last}")
    check("pruned 1" in last[5] and "none of these chunks" in last[6], last)
    check(all("[Token usage: " in result for result in last), f"every result reports the usage: {last}")


def case_pruner_limits():
    """The soft limit suggests pruning; the hard limit refuses every tool but prune_chunks, with both numbers."""
    agent, chunks = AGENTS / "pruner.py", {f"a#{i}": f"fox {'word ' * 40}{i}" for i in range(8)}
    search = call(("search_corpus", {"query": "fox"}))
    done, model = run(agent, [search, search, search, call(("prune_chunks", {"chunk_ids": ["a#0", "a#1", "a#2", "a#3"]})),
                              search, say("a#0 a#5")],
                      {"question": "who?", "chunks": chunks, "context": 400, "soft": 0.4, "hard": 0.5, "page": 2, "reserve": 20})
    results = model.results(5)
    check("prune chunks or answer" not in results[0] and "prune chunks or answer" in results[1].lower(), results)
    refused = results[2]
    check("refused: 2" in refused and "of at most 200" in refused and "[a#" not in refused, refused)
    check("pruned 4" in results[3] and "[a#4]" in results[4], f"after a prune, searches work again: {results}")
    check(posted(model)["facts"]["returned"] == ["a#0", "a#5"], "a pruned chunk may be returned")
    done, model = run(agent, [search, say("")], {"question": "q", "chunks": chunks, "context": 120, "page": 6, "reserve": 20, "hard": 1})
    check("more did not fit" in model.results(1)[0], model.results(1))
    check(posted(model)["facts"]["returned"] == [], "an empty answer returns nothing")


def case_pruner_input():
    agent = AGENTS / "pruner.py"
    slow = call(("grep_corpus", {"pattern": "(a+)+$"}))
    turns = [slow, call(("grep_corpus", {"pattern": "("})), call(("search_corpus", {"query": 7})), call(("search_corpus", "{")),
             call(("fly", {})), call(("search_corpus", {"query": ""})), call(("prune_chunks", {"chunk_ids": "x"}))]
    done, model = run(agent, turns, {"question": "q", "chunks": {"a": "a" * 40 + "b"}, "max_turns": len(turns)})
    check(done.returncode == 0 and done.stdout == "[]\n", done)
    wanted = ["took too long", "pattern is invalid", "'query' is missing", "malformed call", "no such tool", "nothing", "'chunk_ids'"]
    done, model = run(agent, turns + [say("")], {"question": "q", "chunks": {"a": "a" * 40 + "b"}})
    for words, result in zip(wanted, model.results(len(turns))):
        check(words in result, f"wanted '{words}': {result}")
    done, model = run(agent, lambda *_: slow, {"question": "q", "chunks": {}, "max_turns": 2})
    check("returned" not in posted(model)["facts"], "an episode without an answer returns nothing, and earns 0")
    mistaken(run(agent, [], {"question": "q"})[0], "neither 'chunks'")
    mistaken(run(agent, [], {"question": "q", "chunks": {"a": 1}})[0], "neither 'chunks'")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "plain.db")
        path.write_bytes(b"")
        mistaken(run(agent, [], {"question": "q", "corpus": str(path)})[0], "is not an indexed corpus")
        mistaken(run(agent, [], {"question": "q", "corpus": folder + "/none"})[0], "is not an indexed corpus")


def case_corpus_file():
    import subprocess

    with tempfile.TemporaryDirectory() as folder:
        chunks, path = pathlib.Path(folder, "chunks.jsonl"), str(pathlib.Path(folder, "corpus.db"))
        chunks.write_text("".join(json.dumps({"id": id, "text": text}) + "\n" for id, text in CHUNKS.items()))
        subprocess.run(["/usr/bin/python3", "-I", "-S", str(AGENTS / "corpus.py"), str(chunks), path], check=True)
        done, model = run(AGENTS / "pruner.py", [call(("search_corpus", {"query": "hen"})), say("d3#0")],
                          {"question": "q", "corpus": path})
        again = subprocess.run(["/usr/bin/python3", "-I", "-S", str(AGENTS / "corpus.py"), str(chunks), path], capture_output=True, text=True)
        check(again.returncode == 2 and "already exists" in again.stderr, again)
        chunks.write_text('{"id": "a", "text": "b"}\n{"id": 3}\n')
        bad = subprocess.run(["/usr/bin/python3", "-I", "-S", str(AGENTS / "corpus.py"), str(chunks), path + "2"], capture_output=True, text=True)
        check(bad.returncode == 2 and "line 2 is not an object" in bad.stderr, bad)
        check(done.stdout == '["d3#0"]\n' and "[d3#0]" in model.results(1)[0], f"the index stems words: {done}")


def case_truncator():
    agent = AGENTS / "truncator.py"
    ask_m, ask_k = call(("lookup", {"key": "m"})), call(("lookup", {"key": "k"}))
    done, model = run(agent, [ask_m, ask_m, ask_k, say("done")], {"prompt": "go", **LOOKUP, "limit": 200})
    answered(done, "done")
    check(model.results(1) == ["ma" * 40], "below the limit nothing is dropped")
    check(model.results(2) == ["[dropped]", "ma" * 40], model.results(2))
    check(model.results(3) == ["[dropped]", "[dropped]", "kc"], model.results(3))
    done, model = run(agent, lambda *_: ask_m, {"prompt": "go", **LOOKUP, "limit": 0, "max_turns": 3})
    answered(done, "")
    check(len(model.requests) == 3 and model.results(2)[-1] == "ma" * 40, "the newest result stays, and the turns are limited")


def case_summarizer():
    agent = AGENTS / "summarizer.py"
    ask_m = call(("lookup", {"key": "m"}))
    done, model = run(agent, [ask_m, say("m is ma"), say("ma")], {"prompt": "what is m?", "system": "s", **LOOKUP, "trigger": 60})
    answered(done, "ma")
    check(model.requests[1]["messages"][-1]["content"] == "Summarize." and model.requests[1]["messages"][-2]["role"] == "tool",
          model.requests[1])
    check([m["content"] for m in model.requests[2]["messages"]] == ["s", "what is m?", "m is ma"], model.requests[2])

    # An empty summary: the chain continues from the prompt alone. A long one is cut.
    done, model = run(agent, [ask_m, say(""), say("?")], {"prompt": "what is m?", **LOOKUP, "trigger": 60})
    answered(done, "?")
    check([m["content"] for m in model.requests[2]["messages"]] == ["what is m?"], model.requests[2])
    done, model = run(agent, [ask_m, say("x" * 50), say("?")], {"prompt": "q", **LOOKUP, "trigger": 60, "summary_max": 10})
    check(model.requests[2]["messages"][-1]["content"] == "x" * 10, model.requests[2])

    # A chain that never ends is stopped by its summaries, and by its turns. A prompt above the trigger does not loop.
    endless = lambda request, _: say("s" * 20) if request["messages"][-1]["content"] == "Summarize." else ask_m  # noqa: E731
    done, model = run(agent, endless, {"prompt": "q", **LOOKUP, "trigger": 60, "max_summaries": 2})
    answered(done, "")
    check(len(model.requests) == 5, f"3 turns and 2 summaries: {len(model.requests)}")
    done, model = run(agent, endless, {"prompt": "q" * 100, **LOOKUP, "trigger": 60, "max_turns": 3})
    answered(done, "")
    check(len(model.requests) == 5, f"3 turns and 2 summaries: {len(model.requests)}")


def team(script):
    """The script of a model whose sub-agents look up their task and answer with the result."""
    def answer(request, _):
        if request["model"] != "sub-agent":
            turns = sum(message["role"] == "assistant" for message in request["messages"])
            return script[turns]
        last = request["messages"][-1]
        if last["role"] == "tool":
            return say(last["content"])
        return {"fail": 400, "silent": say(" "), "loop": call(("lookup", {"key": "k"}))}.get(
            last["content"], call(("lookup", {"key": last["content"]})))
    return answer


def assign(*pairs):
    return call(*(("assign_task", {"agent": agent, "task": text}) for agent, text in pairs))


def orchestrate(script, **task):
    sub = {**LOOKUP, "max_turns": 3}
    return run(AGENTS / "orchestrator.py", team(script), {"prompt": "do", "answer": "kc", "sub_agent": sub, **task})


def case_orchestrator():
    create = call(("create_subagent", {"name": "a", "system": "sa"}), ("create_subagent", {"name": "b", "system": "sb"}))
    done, model = orchestrate([create, assign(("a", "k"), ("b", "m"), ("a", "m")), say("kc")])
    answered(done, "kc")
    post = posted(model)
    check(post["reward"] == 1 and post["facts"]["stages"] == [{"main": 1}, {"main": 1, "sub": [4, 2]}, {"main": 1}], post)
    check(post["signals"] == {"subagents/created": 2, "subagents/assigned": 2, "subagents/finished": 2,
                              "subagents/critical_steps": 7}, post)
    main = [request for request in model.requests if request["model"] != "sub-agent"]
    results = [message["content"] for message in main[-1]["messages"] if message["role"] == "tool"]
    check(results == ["created", "created", "kc", "ma" * 40, "ma" * 40], results)
    systems = {request["messages"][0]["content"] for request in model.requests if request["model"] == "sub-agent"}
    check(systems == {"sa", "sb"}, systems)


def case_orchestrator_failures():
    """A sub-agent that fails, is silent, or never ends is a result, and does not count as finished."""
    done, model = orchestrate([assign(("a", "fail"), ("b", "silent"), ("c", "k"), ("d", "loop")), say("kc")],
                              create_on_assign=True, sub_agent={**LOOKUP, "max_turns": 3, "tables": {"lookup": {}}})
    post = posted(model)
    # "d" gets a result and answers with it.
    check(post["signals"]["subagents/assigned"] == 4 and post["signals"]["subagents/finished"] == 2, post)
    check(post["facts"]["stages"][0] == {"main": 1, "sub": [0, 1, 2, 2]}, post)
    results = [m["content"] for m in model.requests[-1]["messages"] if m["role"] == "tool"]
    check("answered 400" in results[0] and "an empty answer" in results[1], results)

    done, model = orchestrate([assign(("a", "k"), ("b", "k")), assign(("a", "fail")), say("kc")], create_on_assign=True)
    check(posted(model)["signals"]["subagents/finished"] == 1, f"a sub-agent that fails later has not finished: {model.posts}")

    never = {**LOOKUP, "max_turns": 1}
    done, model = orchestrate([assign(("a", "k")), say("kc")], create_on_assign=True, sub_agent=never)
    check("no answer after its last turn" in model.requests[-1]["messages"][-1]["content"], model.requests[-1])
    check(posted(model)["signals"]["subagents/finished"] == 0, model.posts)

    done, model = orchestrate([assign(("a", "k")), call(("create_subagent", {"name": "a"}), ("assign_task", "{"), ("fly", {})), say("x")])
    results = [m["content"] for m in model.requests[-1]["messages"] if m["role"] == "tool"]
    check(results == ["error: no sub-agent 'a'", "error: 'system' is missing or has the wrong type", "error: malformed call",
                      "error: no such tool"], results)
    check(posted(model)["reward"] == 0 and posted(model)["facts"]["stages"] == [{"main": 1}] * 3, model.posts)
    done, model = orchestrate([assign(*((str(i), "k") for i in range(3))), say("kc")], create_on_assign=True, max_agents=2)
    check("2 sub-agents of at most 2" in model.requests[-1]["messages"][-1]["content"], model.requests[-1])


def case_orchestrator_budget():
    one = [assign(("a", "k")), assign(("b", "k")), say("kc kc")]
    words = {"answer": "kc kc ma", "score": "words", "create_on_assign": True}
    done, model = orchestrate(one, **words)
    check(posted(model)["reward"] == 2 / 3, f"two of three words: {model.posts}")
    done, model = orchestrate(one, budget=6, **words)
    check(posted(model)["reward"] == 0 and len(model.requests) == 7, f"the answer is past the budget: {model.posts}")
    done, model = orchestrate([assign(("a", "k"), ("b", "k")), say("kc kc ma")], budget=4, **words)
    check(posted(model)["reward"] == 1, f"at the same time they fit: {model.posts}")
    done, model = orchestrate([say("")], **{**words, "answer": ""})
    check(posted(model)["reward"] == 0, "an empty expected answer is never right")


SERVER = '''
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {"initialize": {}, "tools/list": {"tools": [{"name": "add", "inputSchema": {"type": "object"}}, {"name": "lookup"}]},
              "tools/call": {"content": [{"type": "text", "text": "sum"}], "isError": asked["params"].get("arguments") == {}}}
    print(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress"}))
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result[asked["method"]]}), flush=True)
'''


class McpHttp(http.server.BaseHTTPRequestHandler):
    """An MCP server over HTTP that answers with a stream of events and wants its session's id."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        begins = asked["method"] == "initialize"
        if not begins and self.headers.get("mcp-session-id") != "s1":
            return self.reply(400, b"no session", "text/plain")
        if "id" not in asked:
            return self.reply(202, b"", "text/plain")
        result = {"initialize": {}, "tools/list": {"tools": [{"name": "add"}]}}.get(asked["method"])
        answer = {"result": result} if result is not None else {"error": {"message": "not today"}}
        text = json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer})
        self.reply(200, f"event: message\ndata: {text}\n\n".encode(), "text/event-stream")

    def reply(self, status, body, kind):
        self.send_response(status)
        for name, value in (("content-length", str(len(body))), ("content-type", kind), ("mcp-session-id", "s1")):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def case_react():
    agent = AGENTS / "react.py"
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), McpHttp)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    stdio = {"command": "/usr/bin/python3", "args": ["-c", SERVER]}
    mcp = {"sums": stdio, "web": {"url": f"http://127.0.0.1:{server.server_port}/mcp"}}
    done, model = run(agent, [call(("lookup", {"key": "k"}), ("add", {"a": 1})), call(("add", {}), ("web_add", {}), ("sums_lookup", {"b": 1})),
                              call(("fly", {}), ("add", "{")), say("bye")], {"prompt": "go", **LOOKUP, "mcp": mcp})
    answered(done, "bye")
    check([tool["function"]["name"] for tool in model.requests[0]["tools"]] == ["lookup", "add", "sums_lookup", "web_add"], model.requests[0])
    check(model.results() == ["kc", "sum", "error: sum", "error: not today", "sum", "error: no such tool", "error: malformed call"],
          model.results())

    silent = {"command": "/usr/bin/python3", "args": ["-c", "import sys; sys.stdin.read()"]}
    sys.path.insert(0, str(AGENTS))
    import mcp_client

    try:
        mcp_client.connect(silent, timeout_s=0.2)
        check(False, "a silent server must time out")
    except mcp_client.McpFailure as failure:
        check("did not answer within 0.2 s" in str(failure), failure)
    for settings, words in (({"command": "/no/such"}, "did not start"), ({"command": "/bin/true"}, "the MCP server /bin/true"),
                            ({**silent, "args": ["-c", "input(); print('hi')"]}, "sent no JSON object"), ({}, "neither 'command' nor 'url'"),
                            ({"url": Model(lambda *_: 404).url + "/chat"}, "answered 404")):
        failed(run(agent, [], {"prompt": "go", "mcp": {"x": settings}})[0], words)
    answered(run(agent, lambda *_: call(("lookup", {"key": "k"})), {"prompt": "go", **LOOKUP, "max_turns": 2})[0], "")


def case_react_environment():
    from openenv_agent_test import Environment, observation

    environment = Environment([observation("start"), observation("one", 0.25), observation("two", 0.5, True)])
    step = lambda to: call(("step", {"action": {"to": to}}))  # noqa: E731
    done, model = run(AGENTS / "react.py", [step(1), call(("step", {"action": 3})), step(2)],
                      {"prompt": "Play.", "environment": environment.url, "reset": {"seed": 3}})
    check(json.loads(done.stdout) == {"reward": 0.75, "signals": {"openenv/steps": 2, "openenv/errors": 0}}, done)
    check([asked["data"] for asked in environment.asked] == [{"seed": 3}, {"to": 1}, {"to": 2}], environment.asked)
    check(model.requests[0]["messages"][0]["content"] == 'Play.\n{"seen": "start"}', model.requests[0])
    refusing = Environment([{"type": "error", "data": {"message": "no seed"}}])
    failed(run(AGENTS / "react.py", [], {"prompt": "Play.", "environment": refusing.url})[0], "rejected the reset")


def main():
    names = sys.argv[2:] or [name[5:] for name in globals() if name.startswith("case_")]
    for name in names:
        globals()["case_" + name]()
        print(f"{name}: ok")


if __name__ == "__main__":
    main()
