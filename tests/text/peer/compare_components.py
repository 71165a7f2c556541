#!/usr/bin/env python3
"""Compares every component of tokenizer.json that Ingot knows with Hugging Face's `tokenizers`, by small random pipelines.

    compare_components.py TOOL [--pipelines 300] [--strings 300] [--seed 1]
    compare_components.py --golden tests/text/testdata/tokenizers.json

The second form writes the cases of the unit test, with the results of `tokenizers`. Needs `pip install tokenizers`.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import fuzz_strings
import tokenizer_files
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers

TRAIN = ("the cat sat on the mat. The dog's bone, it's mine! don't won't can't I'll you've 123 1234 2024 caf\u00e9 na\u00efve "
         "stra\u00dfe \u4f60\u597d\u4e16\u754c \u043f\u0440\u0438\u0432\u0435\u0442 hello world <b>bold</b> def f(x): return x + 1\n\n\tif a == b:\n"
         "    aaaa abab ababab   spaces    and\ttabs ") * 20
PATTERNS = [" ", "\\s+", "\\d", "\\p{N}{1,2}", "[^\\w\\s]+", "a|b", "x*", "(?i:THE|cat)", "\\b", "[aeiou&&[^e]]", "[[:punct:]]",
            "\\p{^L}+", "(?<=a)b", "\\h+", "^.", "[\\S&&\\W]", "[^a-z\\p{Han}]", "\\p{Lu}\\p{Ll}+|\\S", "t(?!h)", "\\A.|.\\z", "a{,2}b",
            "[\\]\\-x]+", "\\x{4F60}|\\u4E16", "o{1,2}+", "e$", "(?:a|ab)(?=b)"]
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def train(byte_level):
    tokenizer = Tokenizer(models.BPE(unk_token=None if byte_level else "<unk>"))
    if byte_level:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(vocab_size=360, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
                                      show_progress=False)
        text = TRAIN
    else:
        specials = ["<unk>"] + [f"<0x{byte:02X}>" for byte in range(256)]
        trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=[AddedToken(t) for t in specials], show_progress=False)
        text = TRAIN.replace(" ", "\u2581")
        tokenizer.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_next")
    tokenizer.train_from_iterator([text], trainer)
    return json.loads(tokenizer.to_str())["model"]


def pattern(rng):
    if rng.random() < 0.3:
        return {"String": rng.choice([" ", "a", "the", "\u2581", "ab", "\u4f60"])}
    return {"Regex": rng.choice(PATTERNS)}


def normalizer(rng, depth=0):
    kind = rng.choice(["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip", "Replace", "Prepend", "ByteLevel", "Sequence"])
    if kind == "Strip":
        return {"type": kind, "strip_left": rng.random() < 0.5, "strip_right": rng.random() < 0.5}
    if kind == "Replace":
        return {"type": kind, "pattern": pattern(rng), "content": rng.choice(["\u2581", "", "_", "ab"])}
    if kind == "Prepend":
        return {"type": kind, "prepend": rng.choice(["\u2581", "ab "])}
    if kind == "Sequence":
        return {"type": kind, "normalizers": [normalizer(rng, 1) for _ in range(rng.randint(0, 3))] if depth == 0 else []}
    return {"type": kind}


def pre_tokenizer(rng, depth=0):
    kind = rng.choice(["Split", "Split", "Split", "Digits", "Punctuation", "Metaspace", "ByteLevel", "WhitespaceSplit",
                       "BertPreTokenizer", "Sequence", "Sequence"])
    if kind == "Split":
        return {"type": kind, "pattern": pattern(rng), "behavior": rng.choice(BEHAVIORS), "invert": rng.random() < 0.3}
    if kind == "Digits":
        return {"type": kind, "individual_digits": rng.random() < 0.5}
    if kind == "Punctuation":
        return {"type": kind, "behavior": rng.choice(BEHAVIORS)}
    if kind == "Metaspace":
        scheme = rng.choice(["first", "never", "always"])
        return {"type": kind, "replacement": "\u2581", "prepend_scheme": scheme, "split": rng.random() < 0.5}
    if kind == "ByteLevel":
        return {"type": kind, "add_prefix_space": rng.random() < 0.5, "trim_offsets": True, "use_regex": rng.random() < 0.5}
    if kind == "Sequence" and depth == 0:
        return {"type": kind, "pretokenizers": [pre_tokenizer(rng, 1) for _ in range(rng.randint(1, 3))]}
    return {"type": "WhitespaceSplit" if kind == "Sequence" else kind}


def decoder(rng):
    replace = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
    strip = {"type": "Strip", "content": " ", "start": rng.randint(0, 2), "stop": 0}
    fallback, fuse = {"type": "ByteFallback"}, {"type": "Fuse"}
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": rng.choice(["first", "never", "always"]),
                 "split": True}
    stages = rng.choice([[replace, fallback, fuse, strip], [replace, fallback, fuse], [fallback, fuse], [fallback], [fuse, strip],
                         [replace], [replace, strip], [byte_level], [byte_level, strip], [metaspace]])
    return stages[0] if len(stages) == 1 else {"type": "Sequence", "decoders": stages}


def added_tokens(rng, vocab):
    next_id, tokens = max(vocab.values()) + 1, []
    contents = ["<s>", "</s>", "<|end|>", "<|end|>x", "the", "  ", "\n\n", " a", "\u2581\u2581", "Caf\u00e9", "12", "<unk>", "A\u0301", "don't"]
    for content in rng.sample(contents, rng.randint(0, 6)):
        if content in vocab:
            token_id = vocab[content]
        else:
            token_id, next_id = next_id, next_id + 1
        flags = {flag: rng.random() < chance for flag, chance in (("special", 0.6), ("normalized", 0.4), ("lstrip", 0.25),
                                                                 ("rstrip", 0.25), ("single_word", 0.25))}
        tokens.append({"id": token_id, "content": content, **flags})
    return tokens


def post_processor(rng, tokens):
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    if not tokens or rng.random() < 0.4:
        return rng.choice([None, byte_level])
    pieces = [{"SpecialToken": {"id": t["content"], "type_id": 0}} for t in tokens[:2]]
    text = {"Sequence": {"id": "A", "type_id": 0}}
    template = {"type": "TemplateProcessing", "single": rng.choice([[pieces[0], text], [pieces[0], text, pieces[-1]], [text]]),
                "pair": [text, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {t["content"]: {"id": t["content"], "ids": [t["id"]], "tokens": [t["content"]]} for t in tokens}}
    roberta = {"type": "RobertaProcessing", "sep": [tokens[0]["content"], tokens[0]["id"]],
               "cls": [tokens[-1]["content"], tokens[-1]["id"]], "trim_offsets": True, "add_prefix_space": False}
    return rng.choice([template, {"type": "Sequence", "processors": [byte_level, template]}, roberta])


def pipeline(rng, byte_model, character_model):
    """A random tokenizer.json that makes sense for its model as often as not."""
    by_bytes = rng.random() < 0.5
    model = dict(byte_model if by_bytes else character_model)
    model["ignore_merges"] = rng.random() < 0.3
    if not by_bytes:
        model["byte_fallback"] = rng.random() < 0.6
        model["fuse_unk"] = rng.random() < 0.5
        if rng.random() < 0.2:
            model["unk_token"] = None
    if rng.random() < 0.5:
        model["merges"] = [" ".join(merge) for merge in model["merges"]]  # the older way to write them
    tokens = added_tokens(rng, model["vocab"])
    pre = pre_tokenizer(rng) if rng.random() < 0.8 else None
    if by_bytes and rng.random() < 0.6:
        level = {"type": "ByteLevel", "add_prefix_space": rng.random() < 0.3, "trim_offsets": True, "use_regex": rng.random() < 0.3}
        pre = {"type": "Sequence", "pretokenizers": [pre, level] if pre else [level]}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens,
            "normalizer": normalizer(rng) if rng.random() < 0.6 else None, "pre_tokenizer": pre,
            "post_processor": post_processor(rng, tokens), "decoder": decoder(rng) if rng.random() < 0.9 else None, "model": model}


def strings_for(seed, data, count):
    fuzz = fuzz_strings.Fuzz(seed, [t["content"] for t in data["added_tokens"]])
    words = TRAIN.split(" ")
    out = []
    for i in range(count):
        part = [fuzz.part() if fuzz.rng.random() < 0.3 else fuzz.rng.choice(words) for _ in range(fuzz.rng.randint(0, 8))]
        if i % 3 == 0 and data["added_tokens"]:
            part.insert(fuzz.rng.randint(0, len(part)), fuzz.rng.choice(data["added_tokens"])["content"])
        out.append(fuzz.rng.choice((" ", " ", "")).join(part))
    return out


def expected(data, strings, lists):
    tokenizer = Tokenizer.from_str(json.dumps(data))
    encode = [tokenizer.encode(s, add_special_tokens=False).ids for s in strings]
    special = [tokenizer.encode(s, add_special_tokens=True).ids for s in strings]
    lists = encode + lists
    decode = [[tokenizer.decode(ids, skip_special_tokens=skip) for ids in lists] for skip in (False, True)]
    return {"encode": encode, "special": special, "lists": lists, "decode": decode[0], "decode_skip": decode[1]}


def id_lists(rng, data, count):
    known = sorted({*data["model"]["vocab"].values(), *(t["id"] for t in data["added_tokens"])})
    return [[rng.choice(known) for _ in range(rng.randint(0, 8))] for _ in range(count)]


def run(tool, command, folder, lines, *options):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run([tool, command, folder, *options], input=text.encode(), capture_output=True, check=False)
    if done.returncode != 0 and not done.stdout:
        return done.stderr.decode().strip()
    return [json.loads(line) for line in done.stdout.splitlines()]


def compare(tool, pipelines, count, seed):
    byte_model, character_model = train(True), train(False)
    differences = cases = refused = 0
    for index in range(pipelines):
        rng = random.Random(seed * 100003 + index)
        data = pipeline(rng, byte_model, character_model)
        strings = strings_for(seed + index, data, count)
        try:
            want = expected(data, strings, id_lists(rng, data, count // 2))
        except BaseException as error:  # a panic of the peer: such a pipeline works nowhere
            print(f"pipeline {index}: the peer gave up: {str(error)[:100]}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "tokenizer.json").write_text(json.dumps(data))
            for what, command, inputs, options in (("encode", "encode", strings, []), ("special", "encode", strings, ["--special"]),
                                                   ("decode", "decode", want["lists"], []),
                                                   ("decode_skip", "decode", want["lists"], ["--skip-special"])):
                ours = run(tool, command, folder, inputs, *options)
                if isinstance(ours, str):
                    refused += 1
                    print(f"pipeline {index}: {ours}")
                    break
                cases += len(inputs)
                bad = [(i, a, b) for i, a, b in zip(inputs, ours, want[what]) if a != b]
                differences += len(bad)
                if bad:
                    shown = {k: v for k, v in data.items() if k != "model"}
                    print(f"pipeline {index}: {len(bad)} of {what}: {bad[0][0]!r}\n  here  {bad[0][1]}\n  there {bad[0][2]}\n  "
                          f"{json.dumps(shown)[:1500]} {({k: v for k, v in data['model'].items() if k not in ('vocab', 'merges')})}")
    print(f"{pipelines} pipelines, {cases} comparisons, {differences} differences, {refused} refused")
    return 1 if differences else 0


def golden(path):
    """Pipelines chosen for what they have, a few strings each. `vocab` and `merges` are stored once."""
    byte_model, character_model = train(True), train(False)
    out = {"models": [byte_model, character_model], "cases": []}
    index = 0
    while len(out["cases"]) < 36:
        index += 1
        rng = random.Random(index)
        data = pipeline(rng, byte_model, character_model)
        strings = strings_for(index, data, 5)
        try:
            want = expected(data, strings, id_lists(rng, data, 3))
        except BaseException:  # a panic of the peer
            continue
        which = 0 if data["model"]["vocab"] is byte_model["vocab"] else 1
        options = {k: v for k, v in data["model"].items() if k not in ("vocab", "merges")}
        out["cases"].append({"tokenizer": {**data, "model": options}, "model": which, "strings": strings, **want})
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    text = ",\n".join(json.dumps(case, ensure_ascii=True, separators=(",", ":")) for case in out["cases"])
    head = json.dumps({"models": out["models"]}, separators=(",", ":"))[:-1]
    pathlib.Path(path).write_text(f'{head},\n"cases":[\n{text}\n]}}\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", nargs="?")
    parser.add_argument("--pipelines", type=int, default=300)
    parser.add_argument("--strings", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--golden")
    args = parser.parse_args()
    if args.golden:
        golden(args.golden)
        return 0
    return compare(args.tool, args.pipelines, args.strings, args.seed)


if __name__ == "__main__":
    sys.exit(main())
