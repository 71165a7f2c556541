#!/usr/bin/env python3
"""Creates a corpus and two-hop questions from WordNet's glosses (Debian package wordnet-base). The same arguments give
the same bytes.

    wordnet.py --out FOLDER [--wordnet /usr/share/wordnet] [--chunks 20000] [--questions 500] [--seed 7]

    chunks.jsonl       {"id": "n02084071", "text": "dog: a member of the genus Canis ... Part of: pack."}
    tasks.jsonl        {"task_id", "question", "relevant_ids": [PART, WHOLE], "answer_ids": [..], "answer"} for agents/pruner.py
    queries.jsonl      {"kind": "name", "paraphrase", or "question", "query", "relevant_ids"} for recall.py

A question joins a part and its whole. One of them is named, and the other is described, as in "Which WHOLE, that is .., has the part
NAME?". The description is the gloss in other words: every noun is replaced by a synonym or its hypernym, and every
other content word is replaced by a synonym or left out. It shares no stem with the chunk. So word search finds the
named chunk, search by meaning finds the described one, and both are needed. The remaining chunks are the closest ones
in WordNet first, and then any nouns.
"""
import argparse
import json
import pathlib
import random
import re
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "families")]
from family import sample  # noqa: E402

PARTS = ("noun", "verb", "adj", "adv")
FILLER = set("""consist consists consisting contain contains containing include includes including called serve serves serving located found
something someone somewhere kind both each either same like covering lying forms forming used especially usually often""".split())
STOP = FILLER | set("""a an the of in on at to for from by with without and or as is are was were be been being that which who whom whose this these
those it its his her their one ones has have had having can may will not no into than other such some any all very more most
etc between through over under during about when where while made make making being part
parts""".split())
ENDINGS = (("ies", "y"), ("ses", "s"), ("xes", "x"), ("ches", "ch"), ("shes", "sh"), ("men", "man"), ("s", ""), ("ing", ""), ("ing", "e"),
           ("ied", "y"), ("ed", "e"), ("ed", ""), ("er", ""), ("est", ""))


class BadWordNet(Exception):
    """A file of WordNet cannot be read."""


class Synset:
    def __init__(self, line, part):
        fields, _, gloss = line.partition(" | ")
        fields = fields.split(" ")
        count = int(fields[3], 16)
        self.key, self.id = (part, fields[0]), part[0] + fields[0]
        self.words = [re.sub(r"\((a|p|ip)\)$", "", word).replace("_", " ") for word in fields[4:4 + 2 * count:2]]
        pointers = fields[5 + 2 * count:5 + 2 * count + 4 * int(fields[4 + 2 * count])]
        kinds = {"n": "noun", "v": "verb", "a": "adj", "s": "adj", "r": "adv"}
        self.pointers = [(pointers[i], (kinds[pointers[i + 2]], pointers[i + 1])) for i in range(0, len(pointers), 4)]
        self.gloss = gloss.split('; "')[0].strip().rstrip(";")

    def linked(self, symbol):
        return [key for kind, key in self.pointers if kind == symbol]


class WordNet:
    def __init__(self, folder):
        self.synsets, self.senses, self.exceptions = {}, {}, {}
        for part in PARTS:
            try:
                self.read(pathlib.Path(folder), part)
            except (OSError, ValueError, IndexError, KeyError) as mistake:
                raise BadWordNet(f"{folder} is not WordNet's folder ({mistake}): install the package wordnet-base, or use --wordnet") from None

    def read(self, folder, part):
        for line in open(folder / f"data.{part}", encoding="utf-8"):
            if not line.startswith("  "):
                synset = Synset(line, part)
                self.synsets[synset.key] = synset
        for line in open(folder / f"index.{part}", encoding="utf-8"):
            if not line.startswith("  "):
                fields = line.split()
                count = int(fields[2])
                tagged = int(fields[-count - 1])  # senses seen in tagged text: how usual the word is as this part of speech
                self.senses.setdefault(fields[0], []).append((tagged, -PARTS.index(part), (part, fields[-count])))
        for line in open(folder / f"{part}.exc", encoding="utf-8"):
            form, lemma, *_ = line.split()
            self.exceptions.setdefault(form, lemma)

    def lemma(self, word):
        """The form of a word that WordNet lists, or None."""
        forms = [word, self.exceptions.get(word, "")] + [word[:-len(end)] + new for end, new in ENDINGS if word.endswith(end)]
        return next((form for form in forms if form in self.senses), None)

    def usual(self, word):
        """The most usual synset of a word, or None."""
        lemma = self.lemma(word)
        return self.synsets[max(self.senses[lemma])[2]] if lemma else None


def stem(word):
    return word.lower()[:4]


def stems(text):
    return {stem(word) for word in re.findall(r"[A-Za-z]+", text) if word.lower() not in STOP}


def other_word(net, word, taken):
    """A synonym of a word, or for a noun the name of its hypernym, whose stems are not in `taken`. "" leaves the word out, because it
    is not a noun. None if a noun has no other word."""
    synset = net.usual(word)
    if synset is None:
        return None
    noun = synset.key[0] == "noun"
    for words in [synset.words] + [net.synsets[key].words for key in synset.linked("@") if noun]:
        for other in sorted(words, key=lambda other: " " in other):
            if not stems(other) & taken and re.fullmatch(r"[a-z '-]+", other):
                return other
    return None if noun else ""


def paraphrase(net, synset, taken):
    """The gloss in other words, or None if a content word has none."""
    words = re.findall(r"[A-Za-z'-]+", re.sub(r"\(.*?\)", "", synset.gloss).split(";")[0])
    words = [word for word in words if word.lower() not in FILLER]
    new = [word if word.lower() in STOP else other_word(net, word.lower(), taken) for word in words]
    content = [word for word in new if word and word.lower() not in STOP]
    return " ".join(filter(None, new)) if None not in new and 3 <= len(content) <= 14 else None


def text_of(net, synset):
    wholes = [net.synsets[key].words[-1] for key in synset.linked("#p")[:1]]
    return f"{synset.words[0]}: {synset.gloss}." + "".join(f" Part of: {name}." for name in wholes)


def question_of(net, part, whole, describes_whole):
    """The question and the description in it, or None. The text of neither chunk has a content word of the description."""
    described, named = (whole, part) if describes_whole else (part, whole)
    taken = stems(text_of(net, part)) | stems(text_of(net, whole)) | {stem(word) for name in described.words for word in name.split()}
    description = paraphrase(net, described, taken)
    if description is None or stems(named.words[0]) & stems(" ".join(described.words)):
        return None
    start = "What has the part" if describes_whole else "Which part of"
    return f"{start} {named.words[0]} and is {description}?", description


def choose(net, rng, count):
    """(part, whole, question, description, described synset), each synset in at most one question."""
    pairs = [(synset, net.synsets[key]) for synset in net.synsets.values() if synset.key[0] == "noun" for key in synset.linked("#p")[:1]]
    chosen, used = [], set()
    for part, whole in sample(rng, pairs, len(pairs)):
        if len(chosen) == count:
            break
        describes_whole = len(chosen) % 2 == 0
        made = None if {part.key, whole.key} & used else question_of(net, part, whole, describes_whole)
        if made:
            used |= {part.key, whole.key}
            chosen.append((part, whole, *made, whole if describes_whole else part))
    return chosen


def corpus(net, rng, chosen, size):
    """The synsets of the questions, then those linked to them, then others, up to `size`, in random order."""
    keys = dict.fromkeys(synset.key for part, whole, *_ in chosen for synset in (part, whole))
    for key in list(keys):
        near = [other for symbol in ("@", "~", "#p", "%p") for other in net.synsets[key].linked(symbol)]
        near += [other for parent in net.synsets[key].linked("@") for other in net.synsets[parent].linked("~")]
        keys.update(dict.fromkeys(other for other in near if other[0] == "noun"))
    others = [key for key in net.synsets if key[0] == "noun" and key not in keys]
    keys = (list(keys) + sample(rng, others, min(len(others), max(0, size - len(keys)))))[:max(size, 2 * len(chosen))]
    return [net.synsets[key] for key in sample(rng, keys, len(keys))]


def write(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def queries(chosen):
    for part, whole, question, description, described in chosen:
        named = part if described is whole else whole
        yield {"kind": "name", "query": named.words[0], "relevant_ids": [named.id]}
        yield {"kind": "paraphrase", "query": description, "relevant_ids": [described.id]}
        yield {"kind": "question", "query": question, "relevant_ids": [part.id, whole.id]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--wordnet", type=pathlib.Path, default=pathlib.Path("/usr/share/wordnet"))
    parser.add_argument("--chunks", type=int, default=20000)
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    try:
        net = WordNet(options.wordnet)
    except BadWordNet as bad:
        sys.exit(f"wordnet: {bad}")
    rng = random.Random(options.seed)
    chosen = choose(net, rng, options.questions)
    synsets = corpus(net, rng, chosen, options.chunks)
    options.out.mkdir(parents=True, exist_ok=True)
    write(options.out / "chunks.jsonl", [{"id": synset.id, "text": text_of(net, synset)} for synset in synsets])
    write(options.out / "tasks.jsonl", [
        {"task_id": f"wordnet-{i}", "question": question, "relevant_ids": [part.id, whole.id], "answer_ids": [described.id],
         "answer": described.words[0]} for i, (part, whole, question, _, described) in enumerate(chosen)])
    write(options.out / "queries.jsonl", queries(chosen))
    print(f"{len(synsets):,} chunks and {len(chosen):,} questions in {options.out}")


if __name__ == "__main__":
    main()
