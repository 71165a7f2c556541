#!/usr/bin/env python3
"""Encoding and decoding speed against Hugging Face's `tokenizers`, one thread each, in turns within one run.

    tokenizer_bench.py BINARY [--families qwen3,llama3] [--rounds 5] [--cache DIR]

BINARY is benchmarks/tokenizer_bench of a build. Text: 10 MB, a half of it Python sources and documentation of this
machine, a half words of a vocabulary of 200,000 tokens (100 languages) drawn by Zipf's law, with punctuation, in documents of
about 8 KB. The peer's fastest entry is used (encode_batch_fast, which keeps no offsets); both have warm caches. Seconds are of processor time: a busy machine
does not count. Prints the median of each and their ratio. Ids are compared too.
"""
import argparse
import glob
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import sysconfig
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/text/peer"))
import tokenizer_files  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

SIZE, DOCUMENT = 10_000_000, 8000


def zipf_text(rng, words, size):
    weights = [1 / (i + 3) for i in range(len(words))]
    parts, length = [], 0
    while length < size:
        for word in rng.choices(words, weights, k=5000):
            parts.append(word + rng.choice(("", "", "", "", "", "", ",", ".", ".\n", "!", " 42", "\n\n")))
            length += len(parts[-1].encode())
    return "".join(parts)


def corpus(cache):
    path = pathlib.Path(cache) / "bench_corpus.bin"
    if not path.exists():
        rng = random.Random(3)
        tokenizer = Tokenizer.from_file(str(tokenizer_files.fetch("gpt4o", cache) / "tokenizer.json"))
        words = [text for text in (tokenizer.decode([i]) for i in range(1000, 199000)) if re.match(r"^ ?\w{2,}$", text)]
        rng.shuffle(words)
        sources = ""
        for file in sorted(glob.glob(sysconfig.get_paths()["stdlib"] + "/**/*.py", recursive=True)):
            sources += pathlib.Path(file).read_text(errors="replace").replace("\0", "")
            if len(sources) > SIZE // 2:
                break
        documents = []
        for text in (sources[:SIZE // 2], zipf_text(rng, words, SIZE // 2)):
            documents += [text[i:i + DOCUMENT] for i in range(0, len(text), DOCUMENT)]
        rng.shuffle(documents)
        path.write_bytes(b"\0".join(document.encode() for document in documents))
    return path


def measure(binary, name, cache, text_file, rounds):
    folder = tokenizer_files.fetch(name, cache)
    texts = text_file.read_bytes().decode().split("\0")
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    peer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ours = subprocess.Popen([binary, str(folder), str(text_file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    load = ours.stdout.readline().split()[2]

    def ask(what):
        ours.stdin.write(what + "\n")
        ours.stdin.flush()
        seconds, count = ours.stdout.readline().split()
        return float(seconds), int(count)

    times = {"here": [], "there": [], "here decode": [], "there decode": []}
    for round_ in range(rounds + 1):
        here, count = ask("encode")
        start = time.process_time()
        encodings = peer.encode_batch_fast(texts, add_special_tokens=False)
        there = time.process_time() - start
        assert count == sum(len(e.ids) for e in encodings), (name, "numbers of ids differ")
        ids = [e.ids for e in encodings]
        here_decode, _ = ask("decode")
        start = time.process_time()
        peer.decode_batch(ids, skip_special_tokens=False)
        there_decode = time.process_time() - start
        if round_ == 0:
            continue  # caches fill
        for key, value in zip(times, (here, there, here_decode, there_decode)):
            times[key].append(value)
    ours.stdin.close()
    ours.wait()
    rate = {key: megabytes / statistics.median(values) for key, values in times.items()}
    print(f"{name:12} encode {rate['here']:6.1f} MB/s here, {rate['there']:5.1f} there: x{rate['here'] / rate['there']:.1f}"
          f"   decode {rate['here decode']:6.1f}, {rate['there decode']:6.1f}: x{rate['here decode'] / rate['there decode']:.1f}"
          f"   {count} ids, loaded in {load} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--families", default=",".join(tokenizer_files.FAMILIES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cache", default=os.environ.get("INGOT_PEER_CACHE", os.path.expanduser("~/.cache/ingot-peers")))
    args = parser.parse_args()
    text_file = corpus(args.cache)
    for name in args.families.split(","):
        measure(args.binary, name, args.cache, text_file, args.rounds)


if __name__ == "__main__":
    main()
