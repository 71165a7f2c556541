#!/usr/bin/env python3
"""Random small templates, rendered by Ingot and by Python's jinja2: compare_expressions.py --renderer PATH [--count N] [--seed N].

Expressions are drawn from a grammar over all operators, filters, tests and methods. Texts must be equal; where Python
raises, Ingot must fail too.
"""
import argparse
import random
import sys

from compare_templates import Renderer, reference

TEXTS = ["''", "'a'", "'Hello World'", "' x y  z '", "'\u00e9\u00dfZ\u4e2d'", "'<a&\"b\\'>'", "'a,b,,c'", "'12'", "' -3.5 '", "'1e3'", "'line1\\nline2\\n'", "'\U0001f600ok'",
         "'%s-%s'", "'{}|{}'", "'ABCabc'", "'0x1F'", "'_1_0'", "\"it's\"", "'\\t\\x41\\u00e9'"]
NUMBERS = ["0", "1", "2", "-1", "3", "10", "7", "100", "1.5", "-2.25", "0.1", "1e20", "2.5", "0.5", "3.0", "true", "false"]
LISTS = ["[]", "[1, 2, 3]", "['b', 'A', 'a', 'B']", "[3, 1, 2, 1]", "[[1, 2], [3, 4]]", "(1, 2)", "('x',)", "range(5)", "range(2, 10, 3)",
         "[1, 1.0, true, 'a', 'A', none]", "users", "['x', '', 'y']"]
DICTS = ["{}", "{'a': 1, 'b': 2}", "d", "{'b': 'x', 'a': 'Y', 'c': ''}", "{1: 'one', 'k': [1]}"]
OTHERS = ["none", "undefined_thing", "s", "n", "f", "users[0]", "users[1].name", "d.items()", "d.keys()", "d.nested.x"]
FILTERS = ["upper", "lower", "title", "capitalize", "trim", "trim('a')", "length", "list", "string", "int", "int(5)", "int(0, 16)", "float", "abs", "round",
           "round(1)", "round(1, 'floor')", "round(0, 'ceil')", "first", "last", "join", "join('-')", "join(', ', attribute='name')", "reverse", "reverse|list",
           "sort", "sort(reverse=true)", "sort(attribute='age')", "sort(case_sensitive=true)", "unique|list", "unique(true)|list", "sum", "min", "max",
           "replace('a', 'b')", "replace('l', 'L', 1)", "default('dflt')", "default('dflt', true)", "d", "tojson", "tojson(indent=2)", "tojson(sort_keys=true)",
           "tojson(separators=(',', ':'))", "tojson(ensure_ascii=true)", "map('upper')|list", "map(attribute='name')|list", "map(attribute='name', default='?')|join",
           "select|list", "select('string')|list", "reject('none')|list", "selectattr('age')|list", "selectattr('age', 'gt', 30)|map(attribute='name')|list",
           "rejectattr('name', 'equalto', 'bob')|list|length", "items|list", "dictsort", "dictsort(by='value')", "dictsort(true, reverse=true)", "batch(2)|list", "batch(2, 'x')|list",
           "slice(2)|list", "groupby('age')|list", "indent", "indent(2, true)", "indent(width=3, blank=true)", "wordcount", "escape", "e", "safe", "format(1, 'x')", "center(12)", "truncate(5)",
           "truncate(8, true, '..', 0)", "urlencode", "count", "attr('x')", "nosuch"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "true", "false", "mapping", "sequence", "iterable", "odd", "even",
         "divisibleby 2", "divisibleby(3)", "lower", "upper", "in [1, 2, 'a']", "equalto 1", "eq 'a'", "sameas none", "callable", "escaped", "ne 2", "gt 1", "le 2", "not none", "not string"]
METHODS = [".upper()", ".strip()", ".lstrip('a ')", ".rstrip()", ".split()", ".split(',')", ".split(' ', 1)", ".rsplit(' ', 1)", ".splitlines()", ".startswith('a')", ".startswith(('H', 'b'))",
           ".endswith('d')", ".replace('l', '_')", ".replace('', '-', 2)", ".title()", ".capitalize()", ".lower()", ".swapcase()", ".find('l')", ".rfind('l')", ".count('l')", ".index('zz')", ".join(['p', 'q'])",
           ".isdigit()", ".isalpha()", ".isspace()", ".isupper()", ".zfill(5)", ".center(9, '*')", ".ljust(4)", ".partition(' ')", ".rpartition('o')", ".format(1, 'b')", ".format(a=1)", ".removeprefix('He')",
           ".items()|list", ".keys()|list", ".values()|list", ".get('a')", ".get('zz', 7)", ".append(1)", ".pop()", ".index(1)", ".count(1)", ".name", ".a", "['a']", "[0]", "[-1]", "[1:]", "[:-1]", "[::-1]", "[::2]", "[-2:]", "[5:1:-2]", "[n]", ".__class__", "._x", ".copy()"]
BINARY = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]


class Generator:
    def __init__(self, rng):
        self.rng = rng

    def atom(self):
        return self.rng.choice(self.rng.choice([TEXTS, NUMBERS, LISTS, DICTS, OTHERS]))

    def expression(self, depth):
        rng = self.rng
        if depth == 0:
            return self.atom()
        kind = rng.randrange(10)
        inner = self.expression(depth - 1)
        if kind < 3:
            return f"({inner})|{rng.choice(FILTERS)}" if rng.random() < 0.5 else f"{inner}|{rng.choice(FILTERS)}"
        if kind < 5:
            return f"({inner}){rng.choice(METHODS)}"
        if kind < 7:
            return f"{inner} {rng.choice(BINARY)} {self.expression(depth - 1)}"
        if kind == 7:
            return f"({inner}) is {rng.choice(TESTS)}"
        if kind == 8:
            return f"({inner} if {self.expression(depth - 1)} else {self.atom()})"
        return rng.choice([f"not {inner}", f"-({inner})", f"[{inner}, {self.atom()}]", f"{{'k': {inner}}}", f"({inner},)", f"+{inner}"])

    def template(self):
        rng = self.rng
        e = lambda: self.expression(rng.randrange(3))
        kind = rng.randrange(12)
        if kind < 6:
            return "{{ " + self.expression(rng.randrange(1, 4)) + " }}"
        if kind == 6:
            body = rng.choice(["{{ x }},", "{{ loop.index }}{{ loop.last }}{{ x }};", "{{ loop.revindex0 }}/{{ loop.length }} {{ loop.previtem }}>{{ loop.nextitem }}\n",
                               "{% if loop.first %}{% continue %}{% endif %}{{ x }}", "{% if loop.index > 2 %}{% break %}{% endif %}{{ loop.cycle('a', 'b') }}",
                               "{{ loop.changed(x) }} ", "{% set y = x %}{{ y }}"])
            condition = rng.choice(["", "", " if x", " if x is string", " if x != 1"])
            return "{% for x in " + e() + condition + " %}" + body + "{% else %}none{% endfor %}{{ y }}"
        if kind == 7:
            return "{% set ns = namespace(c=0, t='') %}{% for a in " + e() + " %}{% set ns.c = ns.c + 1 %}{% set ns.t = ns.t ~ a %}{% endfor %}{{ ns.c }}{{ ns.t }}"
        if kind == 8:
            return ("{% macro m(a, b=" + self.atom() + ", c=b) %}[{{ a }}|{{ b }}|{{ c }}{{ caller() if caller }}{{ kwargs }}{{ varargs }}]{% endmacro %}"
                    "{{ m(" + rng.choice(["", "1", "1, 2", "b=3", "1, 2, 3, 4", "a=1, z=2"]) + ") }}{% call m(" + e() + ") %}in{% endcall %}")
        if kind == 9:
            space = lambda: rng.choice(["", " ", "\n", "  \n", "\n  ", "\t"])
            sign = lambda: rng.choice(["", "", "-", "+"])
            parts = []
            for _ in range(rng.randrange(1, 5)):
                a, b = sign(), sign()
                parts.append(space() + "t" + space() + rng.choice([
                    "{%" + a + " if true " + b + "%}" + space() + "y" + space() + "{%" + sign() + " endif " + sign() + "%}",
                    "{{" + a.replace("+", "") + " 1 " + b.replace("+", "") + "}}", "{#" + a + " c " + b + "#}",
                    "{%" + a + " set q = 1 " + b + "%}", "{%" + a + " raw %}{{ x }}" + space() + "{% endraw " + b + "%}"]) + space())
            return "".join(parts)
        if kind == 10:
            return "{% if " + e() + " %}A{% elif " + e() + " %}B{% else %}C{% endif %}"
        return "{% set x %}" + "a{{ " + e() + " }}" + "{% endset %}{{ x|length }}{% filter upper %}{{ x }}{% endfilter %}{% with w = " + e() + " %}{{ w }}{% endwith %}{{ w }}"


VARIABLES = {"s": "A string, \u00fc", "n": 2, "f": 2.75, "d": {"a": 1, "nested": {"x": [1, {"y": None}]}, "items": "own"},
             "users": [{"name": "bob", "age": 30}, {"name": "Al", "age": 41}, {"name": "cy", "age": 30}]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--renderer", required=True)
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=25)
    args = parser.parse_args()
    compile_template, renderer = reference(), Renderer(args.renderer)
    generator = Generator(random.Random(args.seed))
    equal = refused = skipped = different = 0
    for _ in range(args.count):
        template = generator.template()
        try:
            expected, wrong = compile_template(template).render(**VARIABLES), None
        except Exception as error:
            expected, wrong = None, f"{type(error).__name__}: {error}"
        got = renderer.render(template, VARIABLES)
        if wrong is None and any(mark in expected for mark in (" at 0x", "object at", "<generator", "<built-in", "<function", "e+", "<dict_", "<class", "<list_rev", "reverse")):
            skipped += 1  # addresses, or integers and powers beyond 64 bits
        elif wrong is not None and "error" in got:
            refused += 1
        elif wrong is None and got.get("text") == expected:
            equal += 1
        elif any(mark in got.get("error", "") for mark in ("64 bits", "cannot be sliced", "not supported")):
            skipped += 1  # jinja2 folds slices of constants that have none to undefined
        else:
            different += 1
            if different <= args.show:
                print(f"{template!r}\n  jinja2: {wrong if wrong else repr(expected)}\n  ingot:  {got.get('error') or repr(got.get('text'))}")
    print(f"{args.count} templates: {equal} equal, {refused} refused by both, {skipped} not compared, {different} different")
    return 1 if different or not equal else 0


if __name__ == "__main__":
    sys.exit(main())
