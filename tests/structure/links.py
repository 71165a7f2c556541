#!/usr/bin/env python3
"""Every link between the repository's files leads somewhere: links.py ROOT | --self-test.

Checked are relative links of Markdown files, with the heading that they name, and each docs/ page or image that any other
file mentions. Links to other sites are not.
"""
import os
import pathlib
import re
import sys

SKIPPED = {".git", "build", "runs", "node_modules", ".venv", ".venv-services", "__pycache__"}
LINK = re.compile(r"\]\(([^)\s]+)\)")
MENTION = re.compile(r"(?<![\w.-])(?<![\w.-]/)docs/[\w./-]+\.(?:md|png|svg)\b")
EXTERNAL = re.compile(r"[a-z][a-z+.-]*:")


def without_code(text):
    text = re.sub(r"^ *```.*?^ *```", lambda match: "\n" * match.group(0).count("\n"), text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(text):
    """The names that GitHub gives to a page's headings."""
    found, seen = set(), {}
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    for heading in re.findall(r"^#+ +(.*?) *$", text, re.MULTILINE):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        count = seen.get(name, 0)
        seen[name] = count + 1
        found.add(f"{name}-{count}" if count else name)
    return found


def broken_links(path, text):
    for target in LINK.findall(without_code(text)):
        if EXTERNAL.match(target):
            continue
        place, _, heading = target.partition("#")
        page = (path.parent / place) if place else path
        if not page.exists():
            yield f"no file {target}"
        elif heading and page.suffix == ".md" and heading not in anchors(page.read_text(encoding="utf-8")):
            yield f"no heading {target}"


def broken_mentions(root, text):
    for mention in MENTION.findall(text):
        if not (root / mention).exists():
            yield f"no file {mention}"


def files(root):
    for folder, names, members in os.walk(root):
        names[:] = [name for name in names if name not in SKIPPED]
        yield from (pathlib.Path(folder, name) for name in members)


def self_test():
    assert anchors("# A page\n## Two `words`: here\n## Again\n## Again\n") == {"a-page", "two-words-here", "again", "again-1"}
    assert list(broken_links(pathlib.Path("/nowhere/a.md"), "[x](b.md) [y](https://a.b) `[z](c.md)`")) == ["no file b.md"]
    assert list(broken_mentions(pathlib.Path("/nowhere"), "see docs/a/b.md, github.com/x/docs/c.md")) == ["no file docs/a/b.md"]
    print("links: self-test passed")


def main():
    if sys.argv[1] == "--self-test":
        return self_test()
    root = pathlib.Path(sys.argv[1]).resolve()
    faults, count = [], 0
    for path in sorted(files(root)):
        if not path.is_file() or path == pathlib.Path(__file__).resolve() or path.stat().st_size > 4 << 20:
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        count += 1
        found = list(broken_mentions(root, text))
        if path.suffix == ".md":
            found += broken_links(path, text)
        faults += [f"{path.relative_to(root)}: {fault}" for fault in found]
    if faults:
        sys.exit("\n".join([*faults, f"links: {len(faults)} lead nowhere"]))
    print(f"links: all of {count} files lead somewhere")


if __name__ == "__main__":
    main()
