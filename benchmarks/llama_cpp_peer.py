#!/usr/bin/env python3
"""Rollout compared with llama.cpp, on the CPU: tokens per second of prefill and decoding with the same bf16 weights.

    python3 benchmarks/llama_cpp_peer.py build/release/ingot --llama DIR --source DIR --model DIR [--shape NAME]
        [--streams 1 4 16] [--prompt 512] [--new 64] [--rounds 5] [--threads 2]

--llama names a build of llama.cpp with bin/llama-bench and bin/llama-batched-bench, and --source its sources, whose
convert_hf_to_gguf.py makes the GGUF file; run this with a Python that has torch, transformers, gguf and sentencepiece.
--model names a Hugging Face folder in bf16. With --shape random weights of that Qwen 3 shape (rollout_peer.py) take the place of the
folder's, and its tokenizer is kept.

Rounds alternate, one of each not counted; the median is printed with the least and the greatest. `ingot bench rollout`
samples each token at temperature 1 and records its log-prob; llama.cpp's two programs compute logits and draw nothing.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from rollout_peer import SHAPES, write_model


def lines(argv):
    """The JSON objects among the lines that a program prints."""
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, argv))}: exit code {done.returncode}: {done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def ingot_round(options, folder):
    rates = {}
    for row in lines([options.binary, "bench", "rollout", "--model", folder, "--repeat", "1",
                      "--streams", ",".join(map(str, options.streams)), "--prompt-tokens", str(options.prompt),
                      "--new-tokens", str(options.new), "--threads", str(options.threads)]):
        name = "prefill" if row["figure"] == "prefill" else f"decode, {row['streams']} streams"
        rates[name] = row["tokens_per_second"]
    return rates


def llama_round(options, file):
    common = ["-m", file, "-t", str(options.threads)]
    (prefill,) = lines([options.llama / "bin/llama-bench", *common, "-p", str(options.prompt), "-n", "0", "-r", "1",
                        "-o", "jsonl"])
    rates = {"prefill": prefill["avg_ts"]}
    for streams in options.streams:
        # A cell of the cache for each token of each stream.
        (row,) = lines([options.llama / "bin/llama-batched-bench", *common, "-c", str(streams * (16 + options.new)),
                        "-npp", "16", "-ntg", str(options.new), "-npl", str(streams), "--output-format", "jsonl"])
        rates[f"decode, {streams} streams"] = row["speed_tg"]
    return rates


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--llama", type=pathlib.Path, required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--shape", choices=SHAPES)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--new", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder, file = options.model, pathlib.Path(temporary) / "model.gguf"
        if options.shape:
            folder = pathlib.Path(temporary) / "model"
            write_model(folder, options.shape, "bfloat16", options.model)
        subprocess.run([sys.executable, options.source / "convert_hf_to_gguf.py", folder, "--outfile", file, "--outtype",
                        "bf16"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        rates = {}
        for turn in range(options.rounds + 1):
            for name, measured in (("ingot", ingot_round(options, folder)), ("llama.cpp", llama_round(options, file))):
                for figure, rate in measured.items():
                    if turn > 0:
                        rates.setdefault(figure, {}).setdefault(name, []).append(rate)
    for figure, both in rates.items():
        texts = [f"{name} {statistics.median(r):.0f} ({min(r):.0f} to {max(r):.0f})" for name, r in both.items()]
        ratio = statistics.median(both["ingot"]) / statistics.median(both["llama.cpp"])
        print(f"{figure}: {', '.join(texts)} tokens/s, ratio {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
