#!/usr/bin/env python3
"""Token ids of rendered conversations: `ingot text render` (text_tool) against transformers' apply_chat_template.

    compare_chat_ids.py --tool build/release/tests/text/text_tool --cache DIR [--random N]

DIR holds what compare_templates.py downloaded; every tokenizer.json with a chat template beside it is compared, on the
conversations of compare_templates.py. Where a conversation spells a token of the template's, transformers (asked to
sanitize) and Ingot differ by design in how they cut the text around it; there the ids must decode to the same text, and
hold every control token as often as in the same conversation without the spelling.
"""
import argparse
import collections
import json
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile

from compare_templates import cases


def folders(cache, work):
    for path in sorted(cache.rglob("*.tgz")):
        with tarfile.open(path) as archive:
            wanted = [m for m in archive if m.name.endswith(("tokenizer.json", "tokenizer_config.json"))]
            if len(wanted) != 2:
                continue
            folder = work / path.stem
            folder.mkdir()
            for member in wanted:
                (folder / pathlib.PurePosixPath(member.name).name).write_bytes(archive.extractfile(member).read())
            if json.loads((folder / "tokenizer_config.json").read_text()).get("chat_template"):
                yield folder


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--cache", required=True, type=pathlib.Path)
    parser.add_argument("--random", type=int, default=100)
    args = parser.parse_args()
    from transformers import PreTrainedTokenizerFast

    bad = 0
    with tempfile.TemporaryDirectory() as work:
        for folder in folders(args.cache, pathlib.Path(work)):
            tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
            process = subprocess.Popen([args.tool, "render", str(folder), "--like-transformers"], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True, encoding="utf-8")
            inputs = [v for _, v in cases(random.Random(3), args.random)]
            inputs = [{k: x for k, x in v.items() if x is not None} for v in inputs]
            out, _ = process.communicate("".join(json.dumps(v, ensure_ascii=False) + "\n" for v in inputs))
            count = collections.Counter()
            for variables, line in zip(inputs, out.split("\n")):
                got = json.loads(line)
                rest = {k: v for k, v in variables.items() if k not in ("messages", "tools")}
                try:
                    text = tokenizer.apply_chat_template(variables["messages"], tools=variables.get("tools"), tokenize=False, **rest)
                    ids = tokenizer.encode(text, add_special_tokens=False)
                except Exception:
                    count["refused" if "error" in got else "WRONG: only transformers refuses"] += 1
                    continue
                said = json.dumps([variables["messages"], variables.get("tools"), rest], ensure_ascii=False)
                forged = any(token in said for token in tokenizer.get_added_vocab() if token.strip())
                if got.get("text") != text:
                    count["WRONG: text"] += 1
                elif got["ids"] == ids:
                    count["equal"] += 1
                elif forged and tokenizer.decode(got["ids"]) == tokenizer.decode(ids):
                    count["forged, equal text"] += 1
                else:
                    count["WRONG: ids"] += 1
                    if count["WRONG: ids"] <= 2:
                        at = next((i for i, (a, b) in enumerate(zip(got["ids"], ids)) if a != b), 0)
                        print("  ", json.dumps(variables, ensure_ascii=False)[:300])
                        print("   at", at, tokenizer.convert_ids_to_tokens(ids[max(0, at - 4):at + 6]), tokenizer.convert_ids_to_tokens(got["ids"][max(0, at - 4):at + 6]))
            print(folder.name, dict(count))
            bad += sum(n for what, n in count.items() if what.startswith("WRONG"))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
