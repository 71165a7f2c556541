#!/usr/bin/env python3
"""Every link between the repository's files leads somewhere: links.py ROOT | --self-test.

Checked are:

    relative links of Markdown files, with the heading that they name
    docs/ pages and images that any other file mentions
    `paths/of/files` of the pages below, relative to the root, src/, tests/, or a folder that their section names; a word in
    capitals stands for any name, as in tests/X/grpc_test.cc
    Class::Member of docs/internals/trace.md: the member occurs in the class

Links to other sites are not.
"""
import os
import pathlib
import re
import sys

SKIPPED = {".git", "build", "node_modules", ".venv", ".venv-services", "__pycache__"}
LINK = re.compile(r"\]\(([^)\s]+)\)")
MENTION = re.compile(r"(?<![\w.-])(?<![\w.-]/)docs/[\w./-]+\.(?:md|png|svg)\b")
EXTERNAL = re.compile(r"[a-z][a-z+.-]*:")
PATH_PAGES = re.compile(r"docs/(?:internals|guide|reference)/.+\.md|AGENTS\.md|CONTRIBUTING\.md|README\.md")
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w.*-]+(?:/[\w.*-]+)+\.(?:h|cc|py|sh|proto|yaml)")
# Files of a run or a task, which the repository does not have.
OTHER_FILES = {"RUN/config.yaml", "RUN/kubernetes.yaml", "tests/test.sh"}
TRACE = "docs/internals/trace.md"
MEMBER = re.compile(r"\b(\w+)::(\w+)")


def without_blocks(text):
    return re.sub(r"^ *```.*?^ *```", lambda match: "\n" * match.group(0).count("\n"), text, flags=re.DOTALL | re.MULTILINE)


def without_code(text):
    return re.sub(r"`[^`\n]*`", "", without_blocks(text))


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


def expanded(text):
    """The paths that a path with braces names: a.{h,cc} names a.h and a.cc."""
    braces = re.search(r"\{([^{}]*)\}", text)
    if braces is None:
        return [text]
    before, after = text[:braces.start()], text[braces.end():]
    return [path for word in braces.group(1).split(",") for path in expanded(before + word.strip() + after)]


def exists(path, known):
    if path in known:
        return True
    if not re.search(r"[A-Z*]", path):
        return False
    pattern = re.compile(re.sub(r"[A-Z]+|\\\*", "[^/]+", re.escape(path)))
    return any(pattern.fullmatch(one) for one in known)


def parents(path):
    """The folders that a path is in."""
    words = path.split("/")[:-1]
    return ["/".join(words[:count]) for count in range(1, len(words) + 1)]


def broken_paths(text, known):
    """`known`: the repository's files."""
    folders = {parent for one in known for parent in parents(one)}
    for section in re.split(r"^#+ ", without_blocks(text), flags=re.MULTILINE):
        named = [path for code in CODE.findall(section) for path in expanded(code)]
        places = {"", "src", "tests"}
        for path in named:
            places |= {place for base in ("", "src/", "tests/") for place in parents(base + path) if place in folders}
        for path in named:
            if PATH.fullmatch(path) and path not in OTHER_FILES and not any(
                    exists(f"{place}/{path}" if place else path, known) for place in places):
                yield f"no file {path}"


def bodies(name, sources):
    """The definitions of a class of that name."""
    head = re.compile(rf"^( *)(?:class|struct)\b[^;{{}}()]*\b{name}\b[^;{{}}]*\{{", re.MULTILINE)
    for source in sources:
        for match in head.finditer(source):
            yield source[match.end():source.find(f"\n{match.group(1)}}};", match.end())]


def missing_members(text, sources):
    """`sources`: path in src/ -> text without comments. A lower-case name before :: is a folder, or v1 of proto/."""
    for owner, member in sorted(set(MEMBER.findall(text))):
        word = re.compile(rf"\b{member}\b")
        if owner == "v1":
            places = [source for path, source in sources.items() if path.startswith("proto/")]
        elif owner[0].islower():
            places = [source for path, source in sources.items() if path.startswith(f"src/{owner}/")]
        else:
            places = bodies(owner, sources.values())
        if not any(word.search(place) for place in places):
            yield f"no {owner}::{member} in the code"


def code_of(root):
    names = [path for folder in ("src", "proto") for path in files(root / folder) if path.suffix in (".h", ".cc", ".proto")]
    return {path.relative_to(root).as_posix(): re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8")) for path in names}


def files(root):
    for folder, names, members in os.walk(root):
        names[:] = [name for name in names if name not in SKIPPED and pathlib.Path(folder, name) != root / "runs"]
        yield from (pathlib.Path(folder, name) for name in members)


def self_test():
    assert anchors("# A page\n## Two `words`: here\n## Again\n## Again\n") == {"a-page", "two-words-here", "again", "again-1"}
    assert list(broken_links(pathlib.Path("/nowhere/a.md"), "[x](b.md) [y](https://a.b) `[z](c.md)`")) == ["no file b.md"]
    assert list(broken_mentions(pathlib.Path("/nowhere"), "see docs/a/b.md, github.com/x/docs/c.md")) == ["no file docs/a/b.md"]
    known = {"src/a/b.h", "src/a/b.cc", "src/a/c/d.h", "tests/a/b_test.cc"}
    assert list(broken_paths("`src/a/b.{h,cc}` `a/b.h` `c/d.h` `tests/X/b_test.cc` `a/*_test.cc` `e.h`", known)) == []
    assert list(broken_paths("`a/c.h` `c/d.h` ```\n`a/x.h`\n", known)) == ["no file a/c.h", "no file a/x.h"]
    assert list(broken_paths("# one\n`src/a/b.h`\n# two\n`c/d.h`\n", known)) == ["no file c/d.h"]
    code = {"src/a/b.h": "class B final : public A {\n  void Run();\n};\nvoid Stop();\n", "proto/a.proto": "message Call {}"}
    assert list(missing_members("B::Run B::Run B::Stop a::Stop v1::Call v1::Run", code)) == [
        "no B::Stop in the code", "no v1::Run in the code"]
    print("links: self-test passed")


def main():
    if sys.argv[1] == "--self-test":
        return self_test()
    root = pathlib.Path(sys.argv[1]).resolve()
    faults, count = [], 0
    every = sorted(files(root))
    known = {path.relative_to(root).as_posix() for path in every}
    for path in every:
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
        name = path.relative_to(root).as_posix()
        if PATH_PAGES.fullmatch(name):
            found += broken_paths(text, known)
        if name == TRACE:
            found += missing_members(text, code_of(root))
        faults += [f"{name}: {fault}" for fault in found]
    if faults:
        sys.exit("\n".join([*faults, f"links: {len(faults)} lead nowhere"]))
    print(f"links: all of {count} files lead somewhere")


if __name__ == "__main__":
    main()
