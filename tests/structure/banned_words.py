#!/usr/bin/env python3
"""Fails on private words and translated phrases in the README and docs/ (docs/internals/style.md).

    banned_words.py ROOT       exit 1 lists path:line: word (use: replacement)
    banned_words.py --self-test

Fenced blocks and `code` are not searched: they quote program output, keys and paths.
"""
import pathlib
import re
import sys

BANNED = {  # regular expression, case-insensitive: its replacement
    r"doubts?": "warning",
    r"rungs?": "isolation level",
    r"attendants?": "guest agent",
    r"judges?['’]s? rooms?": "verifier sandbox",
    r"last words": "exit output",
    r"silent roles?": "unresponsive role",
    r"rehears\w*": "preflight check",
    r"the one that": "the noun",
    r"of its own": "its own",
    r"go(?:es)? on": "continue",
    r"beside": "next to, with, in addition to",
}
ANY = re.compile(r"\b(?:" + "|".join(f"({pattern})" for pattern in BANNED) + r")\b", re.IGNORECASE)
REPLACEMENTS = list(BANNED.values())
# style.md names what it forbids.
EXEMPT = {"docs/internals/style.md"}


def prose(text):
    """The text with fenced blocks, `code` and link targets blanked; lines and columns stay."""
    blank = lambda match: re.sub(r"[^\n]", " ", match.group(0))
    text = re.sub(r"^ *```.*?^ *```", blank, text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`]*`", blank, text)
    return re.sub(r"\]\([^)]*\)", blank, text)


def findings(text):
    """(line, found words, replacement) of each banned phrase, also across a line's end."""
    text = prose(text)
    flat = re.sub(r"\s", " ", text)
    return [(text.count("\n", 0, match.start()) + 1, match.group(0), REPLACEMENTS[match.lastindex - 1])
            for match in ANY.finditer(flat)]


def self_test():
    assert findings("A doubt stops nothing.") == [(1, "doubt", "warning")]
    assert findings("One.\nIt goes\non.") == [(2, "goes on", "continue")]
    assert findings("`beside`, [x](beside.md) and besides\n```\nlast words\n```\n") == []
    assert findings("undoubtedly, goes only") == []
    assert [found[1] for found in findings("The judge's room: the one that has its own.")] == ["judge's room", "the one that"]
    print("banned_words: self-test passed")


def main():
    if sys.argv[1] == "--self-test":
        return self_test()
    root = pathlib.Path(sys.argv[1]).resolve()
    pages = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]
    pages = [page for page in pages if page.relative_to(root).as_posix() not in EXEMPT]
    found = [(page.relative_to(root), *finding) for page in pages for finding in findings(page.read_text(encoding="utf-8"))]
    for page, line, words, replacement in found:
        print(f"{page}:{line}: {words} (use: {replacement})")
    if found:
        sys.exit(f"banned_words: {len(found)} in {len(pages)} pages")
    print(f"banned_words: none in {len(pages)} pages")


if __name__ == "__main__":
    main()
