# The interpreter of a session. The service starts it in the session's sandbox:
#
#   stdin         cells, one line of JSON each: {"code", "env"}
#   descriptor 3  notes, one line of JSON each: {"begun"}, {"result"}, {"error"}, then {"done"} for every cell
#   stdout, stderr  what cells, and the programs that they start, print
#
# Cells share __main__ and may use await. SIGINT interrupts a cell. Needs only Python 3.8 and its standard library.
import ast
import asyncio
import base64
import builtins
import inspect
import json
import linecache
import os
import signal
import sys
import traceback
import types

LONGEST_TEXT = 1 << 20  # of one form of a result; more is cut
FORMS = {
    "_repr_html_": "html",
    "_repr_markdown_": "markdown",
    "_repr_svg_": "svg",
    "_repr_png_": "png",
    "_repr_jpeg_": "jpeg",
    "_repr_pdf_": "pdf",
    "_repr_latex_": "latex",
    "_repr_json_": "json",
    "_repr_javascript_": "javascript",
}

# Programs that a cell starts inherit neither, and input() finds an empty stdin.
cells = os.fdopen(os.dup(0), "rb")
notes = os.fdopen(os.dup(3), "wb")
os.close(3)
sys.stdout.reconfigure(line_buffering=True)  # as on a terminal: lines come as they are printed
empty = os.open(os.devnull, os.O_RDONLY)
os.dup2(empty, 0)
os.close(empty)


def note(value):
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    notes.write(json.dumps(value).encode() + b"\n")
    notes.flush()


def cut(text):
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + " ... (cut)"


def forms(value):
    found = {"text": cut(repr(value))}
    for method, name in FORMS.items():
        make = getattr(type(value), method, None)
        if make is None:
            continue
        try:
            made = make(value)
            if isinstance(made, tuple):
                made = made[0]
            if isinstance(made, (bytes, bytearray)):
                made = base64.b64encode(made).decode()
            if made is not None and len(json.dumps(made)) <= 3 * LONGEST_TEXT:
                found[name] = made
        except Exception:
            continue
    return found


def display(*values):
    for value in values:
        note({"result": forms(value)})


def failure(error, filename):
    # Frames above the cell's are this program's own.
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != filename:
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace))
    try:
        value = str(error)
    except Exception:
        value = "<str() of the exception failed>"
    return {"name": type(error).__name__, "value": cut(value), "traceback": cut(text)}


def run(tree, filename, namespace, mode):
    code = compile(tree, filename, mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    value = eval(code, namespace)
    if code.co_flags & inspect.CO_COROUTINE:
        value = loop.run_until_complete(value)
    return value


def run_cell(text, filename, namespace):
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    tree = ast.parse(text, filename)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    if tree.body:
        run(tree, filename, namespace, "exec")
    if last is None:
        return
    value = run(ast.Expression(last.value), filename, namespace, "eval")
    if value is not None:
        builtins._ = value
        note({"result": dict(forms(value), is_main_result=True)})


def interrupted(*_):
    raise KeyboardInterrupt


def changed_environment(changes):
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    return before


def restore_environment(before):
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def serve(namespace):
    count = 0
    while True:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        line = cells.readline()
        if not line:
            return
        cell = json.loads(line)
        count += 1
        filename = "<cell %d>" % count
        error = None
        before = changed_environment(cell["env"])
        try:
            try:
                signal.signal(signal.SIGINT, interrupted)
                note({"begun": count})  # from here on SIGINT counts
                run_cell(cell["code"], filename, namespace)
            finally:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
        except BaseException as raised:  # SystemExit too: the interpreter stays
            error = failure(raised, filename)
        restore_environment(before)
        if error is not None:
            note({"error": error})
        note({"done": count})


sys.path.insert(0, "")
sys.argv = [""]
main = types.ModuleType("__main__")
main.__builtins__ = builtins
main.display = display
sys.modules["__main__"] = main
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
serve(main.__dict__)
