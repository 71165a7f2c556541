#!/usr/bin/env python3
"""Compares Ingot's tokenizers with Hugging Face's `tokenizers`, on files of real models and fuzzed strings.

    compare_tokenizers.py TOOL [--cases 100000] [--families qwen3,llama3] [--cache DIR] [--seed 1]

TOOL is tests/text/text_tool of a build (or a script that runs `ingot text`). Needs npm, and `pip install tokenizers
splintr-rs` (the latter for Kimi's vocabulary). Compares encoding with and without --special, and decoding, with and
without --skip-special, of the encoded ids and of random ids. Prints each difference (at most ten) and exits with 1.
"""
import argparse
import json
import os
import random
import subprocess
import sys

import fuzz_strings
import tokenizer_files
from tokenizers import Tokenizer

BATCH = 20000


def run(tool, command, folder, lines, *options):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run([tool, command, str(folder), *options], input=text.encode(), stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{tool} {command} exited with {done.returncode}: {done.stdout[-500:]!r}")
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == len(lines), (len(results), len(lines))
    return results


class Comparison:
    def __init__(self, name):
        self.name, self.cases, self.differences = name, 0, 0

    def check(self, what, inputs, ours, theirs):
        self.cases += len(inputs)
        for value, a, b in zip(inputs, ours, theirs):
            if a == b:
                continue
            self.differences += 1
            if self.differences <= 10:
                print(f"{self.name}: {what} of {value!r}\n  here  {a!r}\n  there {b!r}", flush=True)


def ids_of(tokenizer, strings, special):
    return [encoding.ids for encoding in tokenizer.encode_batch(strings, add_special_tokens=special)]


def compare(name, folder, tool, cases, seed):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    with open(folder / "tokenizer.json", encoding="utf-8") as file:
        data = json.load(file)
    specials = [token["content"] for token in data["added_tokens"]]
    known = sorted({*data["model"]["vocab"].values(), *(token["id"] for token in data["added_tokens"])})
    fuzz = fuzz_strings.Fuzz(seed, specials)
    rng = random.Random(seed)
    result = Comparison(name)
    strings = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and rng.random() < 0.02]
    strings += [fuzz.string() for _ in range(cases)]
    for start in range(0, len(strings), BATCH):
        part = strings[start:start + BATCH]
        theirs = ids_of(tokenizer, part, False)
        result.check("encode", part, run(tool, "encode", folder, part), theirs)
        some = part[::10]
        result.check("encode --special", some, run(tool, "encode", folder, some, "--special"),
                     ids_of(tokenizer, some, True))
        lists = theirs + [[rng.choice(known) for _ in range(rng.randint(0, 12))] for _ in range(len(part) // 4)]
        for skip, options in ((False, []), (True, ["--skip-special"])):
            expected = [tokenizer.decode(ids, skip_special_tokens=skip) for ids in lists]
            result.check(f"decode {options}", lists, run(tool, "decode", folder, lists, *options), expected)
    print(f"{name}: {len(strings)} strings, {result.cases} comparisons, {result.differences} differences", flush=True)
    return result.differences


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool")
    parser.add_argument("--cases", type=int, default=100000)
    parser.add_argument("--families", default=",".join(tokenizer_files.FAMILIES + tokenizer_files.GENERAL))
    parser.add_argument("--cache", default=os.environ.get("INGOT_PEER_CACHE", os.path.expanduser("~/.cache/ingot-peers")))
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    differences = 0
    for name in args.families.split(","):
        folder = tokenizer_files.fetch(name, args.cache)
        differences += compare(name, folder, args.tool, args.cases, args.seed)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
