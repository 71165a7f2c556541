#!/usr/bin/env python3
"""Writes src/text/unicode/unicode_data.h from the Unicode Character Database.

    scripts/unicode_tables.py UCD > src/text/unicode/unicode_data.h    writes the header
    scripts/unicode_tables.py UCD --check                      exit 1 if the header differs

UCD is a folder with the layout of https://www.unicode.org/Public/: VERSION/ucd/UnicodeData.txt for the versions 8.0.0,
9.0.0, 14.0.0 and 16.0.0, and 16.0.0/ucd/Scripts.txt.
"""
import difflib
import pathlib
import sys
import textwrap

HEADER = pathlib.Path(__file__).resolve().parent.parent / "src/text/unicode/unicode_data.h"
LIMIT = 0x110000
# Punctuation of Unicode 8.0 that 16.0 has in another category; IsPunctuation in unicode.cc names these characters.
NO_LONGER_PUNCTUATION = [0x166D, 0x111C9]


class Version:
    """The characters of one version: category, combining class and decomposition by code point."""

    def __init__(self, ucd, name):
        self.category = ["Cn"] * LIMIT
        self.combining = {}
        self.decomposition = {}
        first = None
        for line in (ucd / name / "ucd/UnicodeData.txt").read_text().splitlines():
            code, title, category, combining, _, decomposition = line.split(";")[:6]
            code = int(code, 16)
            if title.endswith(", First>"):
                first = code
                continue
            for c in range(first if title.endswith(", Last>") else code, code + 1):
                self.category[c] = category
            if combining != "0":
                self.combining[code] = int(combining)
            if decomposition:
                self.decomposition[code] = decomposition

    def composing(self):
        """Every part of a canonical decomposition into two characters."""
        pairs = [d.split() for d in self.decomposition.values() if not d.startswith("<")]
        return {int(part, 16) for pair in pairs if len(pair) == 2 for part in pair}


def han(ucd):
    codes = set()
    for line in (ucd / "16.0.0/ucd/Scripts.txt").read_text().splitlines():
        fields = [field.strip() for field in line.split("#")[0].split(";")]
        if len(fields) == 2 and fields[1] == "Han":
            first, _, last = fields[0].partition("..")
            codes.update(range(int(first, 16), int(last or first, 16) + 1))
    return codes


def ranges(codes, key=lambda code: ""):
    """Sorted [first, last, key] of neighbours with equal keys."""
    found = []
    for code in sorted(codes):
        if found and found[-1][1] == code - 1 and found[-1][2] == key(code):
            found[-1][1] = code
        else:
            found.append([code, code, key(code)])
    return found


def table(comment, declaration, rows):
    items = [f"{{0x{first:X},_0x{last:X}" + (f",_Category::k{key}" if key else "") + "}," for first, last, key in rows]
    wrap = dict(width=120, break_long_words=False, break_on_hyphens=False)
    lines = textwrap.wrap(comment, initial_indent="// ", subsequent_indent="// ", **wrap)
    lines += [f"inline constexpr {declaration}[] = {{"]
    lines += [line.replace("_", " ")  # an entry stays in one line
              for line in textwrap.wrap(" ".join(items), initial_indent="    ", subsequent_indent="    ", **wrap)]
    return "\n".join(lines) + "\n};\n"


def header(ucd):
    v8, v9, v14, v16 = (Version(ucd, name) for name in ("8.0.0", "9.0.0", "14.0.0", "16.0.0"))
    everything = range(LIMIT)
    changed = [c for c in everything if v14.category[c] != v16.category[c]]
    composing = v14.composing()
    normalized = [
        c for c in everything
        if v9.category[c] == "Cn" and v14.category[c] != "Cn" and
        (c in v14.combining or c in v14.decomposition or c in composing)
    ]
    punctuation = [c for c in everything if v16.category[c][0] == "P" and v8.category[c][0] != "P"]
    lost = [c for c in everything if v8.category[c][0] == "P" and v16.category[c][0] != "P"]
    if lost != NO_LONGER_PUNCTUATION:
        sys.exit(f"IsPunctuation in src/text/unicode/unicode.cc must name {[hex(c) for c in lost]}")
    return f"""// Tables for unicode.cc, from the Unicode Character Database. scripts/unicode_tables.py writes this file.
#pragma once

#include "text/unicode/unicode.h"

namespace ingot::text {{

struct CodeRange {{
  uint32_t first;
  uint32_t last;  // inclusive
}};
struct CategoryRange {{
  uint32_t first;
  uint32_t last;  // inclusive
  Category category;
}};

// clang-format off

{table("The characters added in Unicode 15.0, 15.1, and 16.0, and U+1171E, whose category changed. This table extends "
       "any library that has Unicode 14.0 or later to the categories of all Unicode 16.0 characters.",
       "CategoryRange kSinceUnicode14", ranges(changed, lambda c: v16.category[c]))}
{table("Script=Han in Unicode 16.0.", "CodeRange kHanRanges", ranges(han(ucd)))}
{table("Characters added after Unicode 9.0, up to 14.0, that normalization must handle because they have a combining "
       "class or a decomposition, or compose.",
       "CodeRange kNormalizedSinceUnicode9", ranges(normalized))}
{table("Characters that are punctuation in Unicode 16.0 but not in Unicode 8.0.",
       "CodeRange kPunctuationSinceUnicode8", ranges(punctuation))}
// clang-format on

}}  // namespace ingot::text
"""


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    text = header(pathlib.Path(sys.argv[1]))
    if sys.argv[2:] != ["--check"]:
        sys.stdout.write(text)
        return
    difference = list(difflib.unified_diff(HEADER.read_text().splitlines(), text.splitlines(),
                                           "src/text/unicode/unicode_data.h", "the database", lineterm=""))
    print("\n".join(difference) or "src/text/unicode/unicode_data.h equals the database")
    sys.exit(1 if difference else 0)


if __name__ == "__main__":
    main()
