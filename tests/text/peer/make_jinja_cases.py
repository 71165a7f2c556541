#!/usr/bin/env python3
"""Writes tests/text/testdata/jinja_cases.json for jinja_test: small templates, written for Ingot, with their renderings
by jinja2 as transformers sets it up. Run it after a change to the list: make_jinja_cases.py OUTPUT."""
import json
import sys

from compare_templates import reference

V = {"s": "A string, \u00fc", "n": 2, "f": 2.75, "none_value": None, "flag": True,
     "d": {"a": 1, "b": {"c": [1, 2, {"e": "\u00e9\"\n"}]}, "items": "own"},
     "words": ["pear", "Apple", "fig"], "messages": [
         {"role": "system", "content": "Be kind."}, {"role": "user", "content": " Hi \n"},
         {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello", "tool_calls": [
             {"type": "function", "function": {"name": "look", "arguments": {"at": "sky", "n": 2.0, "deep": {"x": None, "y": [True]}}}}]},
         {"role": "tool", "content": "blue"}]}

CASES = {
    "text stays": "a b\n c\n",
    "one trailing newline goes": "x\n\n",
    "carriage returns": "a\r\nb\rc",
    "trim_blocks": "{% if true %}\nx\n{% endif %}\ny",
    "lstrip_blocks": "a\n   {% if true %}\n  x\n   {% endif %}  \ny",
    "lstrip leaves text before a tag": "a {% if true %}b{% endif %}",
    "minus strips": " a \n {%- if true -%} \n b \n {%- endif -%} \n c ",
    "plus keeps": "a\n  {%+ if true %}b{% endif +%}\nc",
    "variables keep white space": "  {{ n }}\n  {{- n -}}  \n x",
    "comments": "a {# c #}\n b {#- c -#} d\n  {# e #}\nf",
    "raw": "{% raw %}{{ x }}{% if %}{% endraw %}|{%- raw -%} {# y #} {%- endraw -%} |",
    "strings": "{{ 'it\\'s' ~ \"\\\"q\\\"\" ~ '\\n\\t\\x41\\u00e9\\\\' ~ 'a' 'b' \"c\" }}",
    "unknown escapes stay": "{{ '\\d\\.' }}",
    "numbers": "{{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 1.5e3 }} {{ 2E-7 }}",
    "precedence": "{{ 1 + 2 * 3 ** 2 - -4 }} {{ not true or true }} {{ 7 // 2 * 2 }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }}",
    "division": "{{ 7 / 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 6 / 3 }}",
    "tilde binds tighter than plus": "{{ 1 ~ 2 + 3 ~ 4 if false else 'a' + 1 ~ 2 }}",
    "concatenation prints": "{{ 1 ~ none ~ true ~ 1.0 ~ [1, 'x'] ~ {'k': none} ~ missing }}",
    "comparisons chain": "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 == true }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }}",
    "in": "{{ 'ar' in 'pear' }} {{ 3 not in [1, 2] }} {{ 'a' in d }} {{ 'x' in missing }} {{ none in [none] }}",
    "logic returns values": "{{ 0 or 'x' }} {{ 'a' and 'b' }} {{ '' or none }} {{ not '' }}",
    "conditions": "{{ 'y' if n == 2 else 'z' }}{{ 'gone' if false }}{{ 1 if 0 else 2 if 0 else 3 }}",
    "python printing": "{{ [1, 2.0, 'a\\'b', \"q\\\"\", none, true, (1,), {'k': 'v'}] }} {{ (1, 2) }} {{ {} }}",
    "floats print as Python's": "{{ 1e16 }} {{ 1e15 }} {{ 0.1 + 0.2 }} {{ 1e-5 }} {{ 100000.0 }} {{ 1.0 }} {{ 1e22 }}",
    "unicode repr": "{{ ['\u00e9\u4e2d\U0001f600\\x00\\x7f\\u200b\\u2028'] }}",
    "lookups": "{{ d.a }} {{ d['b']['c'][2].e }} {{ d.b.c[-1]['e'] }} {{ words.1 }} {{ words[9] }} {{ none_value.x }} {{ d.no }}",
    "methods come before keys": "{{ d.items() | length }} {{ d['items'] }} {{ d.keys() | list }}",
    "slices": "{{ words[1:] }} {{ words[::-1] }} {{ s[2:8:2] }} {{ s[-1] }} {{ s[:-20] }}| {{ words[:1] + words[2:] }} {{ (1, 2, 3)[1:] }}",
    "slices of characters": "{{ 'a\u00e9\u4e2d\U0001f600z'[1:4] }} {{ '\u00e9\u4e2d'[::-1] }} {{ '\u00e9\u4e2d' | length }} {{ '\u4e2d\u56fd'[1] }}",
    "for": "{% for w in words %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {{ w }};{% endfor %}",
    "for neighbours": "{% for x in [1, 1, 2] %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }}{{ loop.changed(x) }}{{ loop.cycle('o', 'e') }} {% endfor %}",
    "for if": "{% for x in range(10) if x % 3 == 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% else %}no{% endfor %}",
    "for else": "{% for x in [] %}x{% else %}empty{% endfor %}{% for x in missing %}x{% else %}undefined{% endfor %}",
    "for else after continue": "{% for x in [1] %}{% continue %}{% else %}else{% endfor %}",
    "break and continue": "{% for x in range(9) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "for unpacks": "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for a, (b, c) in [(1, (2, 3))] %}{{ a + b + c }}{% endfor %}",
    "for over text and dict": "{% for c in 'a\u00e9' %}[{{ c }}]{% endfor %}{% for k in d %}{{ k }} {% endfor %}",
    "recursive for": "{% for x in [[1, [2, 3]], 4] recursive %}{% if x is sequence %}({{ loop(x) }}){% else %}{{ x }}@{{ loop.depth }}{% endif %}{% endfor %}",
    "sets in loops stay there": "{% set x = 0 %}{% for i in range(3) %}{% set x = x + i %}{{ x }}{% endfor %}|{{ x }}",
    "sets in conditions leave them": "{% if true %}{% set x = 1 %}{% endif %}{{ x }}",
    "namespace": "{% set ns = namespace(a=1, b='x') %}{% for i in range(4) %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}",
    "namespace of a dict": "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a + ns.b }}",
    "set unpacks": "{% set a, b = 1, 'x' %}{{ a }}{{ b }}{% set t = 1, %}{{ t }}",
    "set block": "{% set x %}  a{{ n }}\n{% endset %}[{{ x }}]{% set y | upper | trim %} q {% endset %}[{{ y }}]",
    "macro": "{% macro m(a, b='B', c=a) %}{{ a }}{{ b }}{{ c }}{{ varargs }}{{ kwargs }};{% endmacro %}{{ m(1) }}{{ m(1, 2, 3, 4) }}{{ m(b=1, z=2) }}{{ m('x', c='y') }}",
    "macro sees later sets": "{% macro m() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ m() }}{% set x = 2 %}{{ m() }}",
    "macro recursion": "{% macro f(n) %}{{ n }}{% if n > 0 %},{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}{{ f.name }}{{ f.arguments }}",
    "call block": "{% macro m(x) %}<{{ x }}>{{ caller('in', x) }}</{{ x }}>{% endmacro %}{% call(a, b) m('t') %}{{ a }}{{ b }}{% endcall %}",
    "filter block": "{% filter upper | replace('A', '4') %}banana {{ n }}{% endfilter %}",
    "with": "{% with a = 1, b = n %}{{ a }}{{ b }}{% set c = 3 %}{% endwith %}{{ a }}{{ c }}",
    "generation": "a{% generation %}{% set x = 1 %}said {{ x }}{% endgeneration %}{{ x }}b",
    "tojson": "{{ d | tojson }} {{ '<a&\\'\u00e9\u2028/>' | tojson }} {{ [1, 2.0, 1e20, none, true] | tojson }}",
    "tojson indent": "{{ d | tojson(indent=2) }}\n{{ [] | tojson(indent=1) }}{{ [[1], {}] | tojson(indent=4) }}",
    "tojson options": "{{ {'b': 1, 'a': [1, '\u00e9\U0001f600']} | tojson(sort_keys=true, separators=(',', ':'), ensure_ascii=true) }}",
    "tojson keys": "{{ {1: 'a', 2.5: 'b', none: 'c', true: 'd'} | tojson }}",
    "text filters": "{{ ' x ' | trim }}|{{ 'xxaxx' | trim('x') }}|{{ 'hello wORLD-x' | title }}|{{ 'hELLO' | capitalize }}|{{ 'a\u00df' | upper }}|{{ '\u0130\u03a3' | lower }}",
    "more text filters": "{{ 'a b  c' | wordcount }} {{ 'abcdef' | truncate(5, true, '~', 0) }} {{ 'ab' | center(6) }}| {{ 'x\\ny\\n\\nz' | indent(2) }} {{ 'a' | indent(3, true) }}",
    "escape": "{{ '<a href=\"x\">\\'&' | e }} {{ '<b>' | safe }} {{ '<i>' + ('<b>' | safe) }} {{ '<i>' ~ ('<b>' | e) }}",
    "numbers filters": "{{ '42.9' | int }} {{ 'x' | int(7) }} {{ '1F' | int(0, 16) }} {{ '2.5' | float }} {{ 'z' | float(1.5) }} {{ -3 | abs }} {{ 2.675 | round(2) }} {{ 2.5 | round }} {{ 1.2 | round(0, 'ceil') }} {{ 5 | round }}",
    "list filters": "{{ words | sort }} {{ words | sort(case_sensitive=true, reverse=true) }} {{ words | join(', ') }} {{ words | first }} {{ words | last }} {{ words | reverse | list }} {{ 'abc' | reverse }} {{ [3, 1, 2] | max }} {{ words | min }} {{ [1, 2.5] | sum }} {{ ['a', 'A', 'b'] | unique | list }}",
    "dict filters": "{{ {'b': 1, 'A': 2} | dictsort }} {{ {'b': 1, 'A': 2} | dictsort(by='value', reverse=true) }} {% for k, v in d | items %}{{ k }} {% endfor %}{{ d | length }} {{ d | list }}",
    "map and select": "{{ messages | map(attribute='role') | join(',') }} {{ words | map('upper') | list }} {{ [1, 0, 2, none] | select | list }} {{ range(6) | select('odd') | list }} {{ range(6) | reject('divisibleby', 3) | list }} {{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list }} {{ messages | rejectattr('tool_calls') | list | length }} {{ messages | map(attribute='name', default='-') | join }}",
    "groupby and batch": "{% for g in [{'k': 'b', 'v': 1}, {'k': 'a', 'v': 2}, {'k': 'B', 'v': 3}] | groupby('k') %}{{ g.grouper }}:{{ g.list | map(attribute='v') | join('+') }} {% endfor %}{{ range(5) | batch(2, 'x') | list }} {{ range(5) | slice(2) | list }}",
    "default": "{{ missing | default('d') }} {{ '' | default('d') }}|{{ '' | default('d', true) }} {{ none | d('x') }} {{ messages[0].nope | default(boolean=true, default_value='k') }}",
    "tests": "{{ missing is defined }} {{ n is defined }} {{ none_value is none }} {{ s is string }} {{ d is mapping }} {{ words is sequence }} {{ d is iterable }} {{ n is number }} {{ true is integer }} {{ f is float }} {{ flag is true }} {{ 3 is odd }} {{ 4 is divisibleby 2 }} {{ 'a' is in 'abc' }} {{ n is not none }} {{ 'ab' is lower }} {{ 2 is eq(2) }} {{ missing is sequence }} {{ missing is undefined }}",
    "text methods": "{{ ' a '.strip() }}|{{ 'xay'.lstrip('x').rstrip('y') }}|{{ 'a,b,,c'.split(',') }}|{{ ' a  b '.split() }}|{{ 'a b c'.split(' ', 1) }}|{{ 'a b c'.rsplit(' ', 1) }}|{{ 'ab'.startswith(('x', 'a')) }}|{{ 'ab'.endswith('b') }}|{{ 'aXbX'.replace('X', '-', 1) }}|{{ 'abcb'.find('b') }} {{ 'abcb'.rfind('b') }} {{ 'abcb'.count('b') }}|{{ ','.join(words) }}|{{ 'hello world'.title() }}|{{ 'a\\nb\\r\\nc'.splitlines() }}|{{ 'a-b'.partition('-') }}",
    "text formats": "{{ '%s is %d or %.2f, %5s|%-5s|%05d %x %r %%' % ('x', 3.9, 2.5, 'a', 'b', 42, 255, 'q') }} {{ '%(a)s' % d }} {{ '{} {0}' .format(1) if false else '{} {b:>4} {0[0]}'.format(words, b=2) if false else '{0} {b:>4}'.format('a', b=2) }} {{ '{:.1f}|{:,}|{:<4}|{:^5}|{!r}'.format(2.25, 12345, 'a', 'b', 'c') }} {{ '%s-%s' | format(1, 'b') }}",
    "dict methods": "{{ d.get('a') }} {{ d.get('zz') }} {{ d.get('zz', 3) }} {{ {'a': 1}.values() | list }} {{ dict(a=1, b=2) }} {{ dict({'x': 1}, y=2) }}",
    "list arithmetic": "{{ [1] + [2] }} {{ [0] * 3 }} {{ 'ab' * 2 }} {{ (1,) + (2,) }} {{ [1, 2, 1].count(1) }} {{ words.index('fig') }}",
    "joiner and cycler": "{% set j = joiner('; ') %}{% for x in range(3) %}{{ j() }}{{ x }}{% endfor %} {% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.next() }}",
    "calls with stars": "{% macro m(a, b, c=3) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(1, **{'b': 5, 'c': 6}) }}",
    "inline calls on literals": "{{ [1, 2, 3] | length }} {{ {'a': 1}['a'] }} {{ 'x'.upper() }} {{ (1 if n else 2) + 1 }}",
    "a chat": "{%- for message in messages %}\n{{- '<|' + message.role + '|>\\n' }}\n{%- if message.role == 'assistant' and '</think>' in message.content %}\n{{- message.content.split('</think>')[-1].lstrip('\\n') }}\n{%- else %}\n{{- message.content | trim }}\n{%- endif %}\n{%- for call in message.tool_calls %}\n{{- '\\n<call>' ~ call.function | tojson ~ '</call>' }}\n{%- endfor %}\n{{- '<|end|>\\n' }}\n{%- endfor %}\n{%- if add_generation_prompt %}<|assistant|>{% endif %}",
    "unsafe attributes are undefined": "{{ s.__class__ }}|{{ words.append is defined }}|{{ d.__len__ | default('none') }}",
}

REFUSED = {
    "raise_exception": "a\n{% if true %}\n{{ raise_exception('no ' ~ n) }}{% endif %}",
    "undefined attribute": "{{ missing.x }}",
    "undefined plus": "{{ missing + 'a' }}",
    "undefined call": "{{ missing() }}",
    "mutation": "{{ words.append(1) }}",
    "text plus number": "{{ 'a' + 1 }}",
    "none is not iterable": "{% for x in none_value %}{% endfor %}",
    "number in text": "{{ 1 in 'a' }}",
    "division by zero": "{{ 1 / 0 }}",
    "json of undefined": "{{ missing | tojson }}",
    "json of a generator": "{{ words | map('upper') | tojson }}",
    "length of a number": "{{ n | length }}",
    "unknown filter": "{{ n | nothing }}",
    "unknown test": "{{ n is nothing }}",
    "unknown filter in a condition": "{% if true %}{{ n | nothing }}{% endif %}",
    "unknown tag": "{% nothing %}",
    "unclosed if": "{% if true %}x",
    "unclosed print": "{{ n",
    "unclosed comment": "{# x",
    "unclosed string": "{{ 'x }}",
    "brackets": "{{ [1, 2) }}",
    "empty print": "{{ }}",
    "assigning to a constant": "{% set true = 1 %}",
    "assigning to loop": "{% for loop in words %}{% endfor %}",
    "namespace attribute of a dict": "{% set d.x = 1 %}",
    "namespace underscore": "{% set ns = namespace() %}{% set ns._x = 1 %}",
    "too many arguments": "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
    "unknown keyword": "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}",
    "unpacking": "{% set a, b = [1, 2, 3] %}",
    "range too big": "{{ range(1000000) | length }}",
    "break outside": "{% break %}",
    "too many values": "{{ '%s' % (1, 2) }}",
    "unhashable": "{{ {[1]: 2} }}",
    "comparison": "{{ 'a' < 1 }}",
    "recursive loop without the word": "{% for x in [1] %}{{ loop([2]) }}{% endfor %}",
}


def main():
    compile_template = reference()
    out = []
    for name, template in CASES.items():
        out.append({"name": name, "template": template, "text": compile_template(template).render(**V)})
    for name, template in REFUSED.items():
        try:
            text = compile_template(template).render(**V)
        except Exception:
            out.append({"name": name, "template": template, "text": None})
        else:
            raise SystemExit(f"{name}: jinja2 renders it: {text!r}")
    with open(sys.argv[1], "w") as file:
        json.dump({"variables": V, "cases": out}, file, ensure_ascii=False, indent=1)
        file.write("\n")
    print(f"{len(out)} cases")


if __name__ == "__main__":
    main()
