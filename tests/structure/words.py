#!/usr/bin/env python3
"""Holds comments and pages to the project's English (docs/internals/words.md).

    words.py ROOT             every folder within the budget? exit 1 names the folders and their sentences
    words.py ROOT --list DIR  every finding below DIR, as path:line: sentence
    words.py ROOT --long DIR  sentences of more than 25 words below DIR: a reading aid, no test
    words.py --self-test

A finding is a clause that defines a thing without a noun: "what is settled is what ...", "those that have ...", or a
sentence that begins with What, Those or Of which. The budget is BUDGET findings per 1,000 words of comment, held by each
folder of src/, by proto/, tests/, benchmarks/, scripts/ and docs/ with the README.
"""
import pathlib
import re
import sys

BUDGET = 3.0
MINIMUM_WORDS = 300  # a folder with fewer words may have one finding

VERBS = r"(?:is|was|are|were|be|it|they|he|she|has|have|had|stands?|stood|does|do|did|came|comes|goes|went)"
CLAUSE = re.compile(rf"\b(?:what|those|that which|of which|all that|those that|of those)\s+{VERBS}\b"
                    r"|\bthose\s+(?:that|which|who|of)\b|\bof (?:those|what)\b", re.IGNORECASE)
OPENING = re.compile(r"^(?:what|those|of which)\b", re.IGNORECASE)
SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z`\"(])")


def comment_blocks(path, text):
    """(first line, text) of each run of comment lines or trailing comments; of a page, of each paragraph."""
    blocks, start, words = [], 0, []

    def close():
        if words:
            blocks.append((start, " ".join(words)))
            words.clear()

    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if path.suffix == ".md":
            if line.startswith("```"):
                fenced = not fenced
                close()
                continue
            comment = None if fenced or not line.strip() else line.strip()
            if comment and re.match(r"\||[-*] |\d+\. |#", comment):
                close()  # a row, an item, a heading
        elif path.suffix in (".py", ".sh", ".cmake", ".txt", ".yaml") or path.name in ("Makefile", "run"):
            found = re.match(r"\s*#(?!!)\s?(.*)", line)
            comment = found.group(1) if found else None
        else:
            found = re.match(r"\s*//+\s?(.*)", line)
            trailing = None if found else re.search(r"[;{},)]\s+// (.*)", line)
            if trailing:
                close()
                blocks.append((number, trailing.group(1)))
                continue
            comment = found.group(1) if found else None
        if not comment:
            close()
            continue
        if not words:
            start = number
        words.append(comment)
    close()
    return blocks


def findings(path):
    """(number of words, [(line, sentence)])"""
    count, found = 0, []
    for line, block in comment_blocks(path, path.read_text(errors="replace")):
        count += len(block.split())
        for sentence in SENTENCE_END.split(block):
            hits = len(CLAUSE.findall(sentence)) or (1 if OPENING.match(sentence) else 0)
            found += [(line, sentence)] * hits
    return count, found


SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".inc", ".proto", ".py", ".sh", ".md", ".cmake"}


def files(folder):
    return sorted(p for p in folder.rglob("*") if p.is_file() and (p.suffix in SUFFIXES or p.name == "CMakeLists.txt"))


def folders(root):
    groups = {f"src/{p.name}": files(p) for p in sorted((root / "src").iterdir()) if p.is_dir()}
    for name in ("proto", "tests", "benchmarks", "scripts", "cmake", "examples"):
        groups[name] = files(root / name)
    groups["docs and README.md"] = files(root / "docs") + [root / "README.md"]
    return groups


def over_budget(root):
    failed = False
    for name, paths in folders(root).items():
        words, found = 0, []
        for path in paths:
            count, here = findings(path)
            words += count
            found += [(path, line, sentence) for line, sentence in here]
        rate = 1000.0 * len(found) / max(words, 1)
        bad = rate > BUDGET and (words >= MINIMUM_WORDS or len(found) > 1)
        failed |= bad
        print(f"{'FAIL' if bad else 'ok  '} {name:20} {len(found):4} in {words:6} words: {rate:4.1f} per 1,000")
        if bad:
            for path, line, sentence in found[:20]:
                print(f"       {path.relative_to(root)}:{line}: {sentence[:160]}")
    if failed:
        print(f"words: over {BUDGET} per 1,000. Name the thing: a noun of docs/internals/words.md, an active verb, one fact a sentence.")
    return failed


def self_test():
    def count(text, name="a.h"):
        return [sentence for _, block in comment_blocks(pathlib.Path(name), text)
                for sentence in SENTENCE_END.split(block) if CLAUSE.search(sentence) or OPENING.match(sentence)]
    assert count("// What is settled is\n// what a later request may have.\nint a;") != []
    assert count("int a;  // of those that have one, the last") != []
    assert count("// The newest version wins.\n// Nothing else does.") == []
    assert count('const char* what = "// those that is";') == []
    assert count("Text.\n\n```\nwhat is this\n```\n", "a.md") == []
    assert count("# those that stand\n", "a.py") != []
    print("words: self-test passed")


def main():
    if sys.argv[1] == "--self-test":
        return self_test()
    root = pathlib.Path(sys.argv[1]).resolve()
    if len(sys.argv) == 2:
        sys.exit(1 if over_budget(root) else 0)
    mode, folder = sys.argv[2], (root / sys.argv[3])
    for path in files(folder) if folder.is_dir() else [folder]:
        if mode == "--list":
            for line, sentence in findings(path)[1]:
                print(f"{path.relative_to(root)}:{line}: {sentence}")
        else:
            for line, block in comment_blocks(path, path.read_text(errors="replace")):
                for sentence in SENTENCE_END.split(block):
                    if len(sentence.split()) > 25 and not sentence.startswith("|"):
                        print(f"{path.relative_to(root)}:{line}: ({len(sentence.split())}) {sentence}")


if __name__ == "__main__":
    main()
