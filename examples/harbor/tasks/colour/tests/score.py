import pathlib
import sys

file = pathlib.Path(sys.argv[1])
answer = file.read_bytes().decode("utf-8", "replace").strip() if file.exists() else ""
print(sum("a" <= c <= "z" for c in answer) / max(1, len(answer)))
