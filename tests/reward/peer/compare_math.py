#!/usr/bin/env python3
"""Compares the verifier `math` with math-verify 0.9 as its users call it, on 500 pairs of an expected value and an answer.

    compare_math.py MATH_VERDICTS        a part of `make test-agents`; the Python that runs it has math-verify

Whether a pair is equal is known from how it was made. Every equal pair that math-verify accepts must be accepted, and no
unequal pair may be. math-verify reads the expected value as $..$ and the answer as it is.
"""
import json
import logging
import random
import subprocess
import sys
from fractions import Fraction

logging.disable(logging.CRITICAL)
from math_verify import parse, verify  # noqa: E402

COUNT = 500
MINUS, NO_BREAK, NARROW = "\u2212", "\u00a0", "\u202f"
# Ways in which models write an answer; {} is the mathematics.
PLAIN = ["{}", "${}$", "$${}$$", r"\({}\)", r"\[{}\]", r"\boxed{{{}}}", r"$\boxed{{{}}}$", r"So the answer is $\boxed{{{}}}$.",
         r"First \boxed{{0}}, and at last \boxed{{{}}}", r"**\boxed{{{}}}**", "The final answer is ${}$. I hope it is correct.",
         "**Answer:** ${}$", "Answer: **${}$**"]
NUMBERS = ["{}", "**{}**", "The answer is {}.", "The answer is **{}**.", "**The answer is {}**", "Thus {}", "The total is {}",
           "about {} apples are left", "{} apples", r"{} \text{{ cm}}", "Answer: {}", "Final answer: {}", "x = {}", "$x = {}$"]
PRICES = [r"\${}", "${}", r"$\${}$", r"\boxed{{\${}}}", r"$\boxed{{\${}}}$", r"The price is \boxed{{\${}}}.", "The price is **${}**",
          "It costs ${}"]
# Equal within a line, and different between lines of a block.
ALIKE = [[[r"\frac{1}{2}", "1/2", "0.5", r"\dfrac{1}{2}", r"\frac12", "2^{-1}", r"50\%"], [r"\frac{1}{3}", "1/3", r"\frac{2}{6}"]],
         [[r"\sqrt{8}", r"2\sqrt{2}", r"\sqrt{2}\cdot 2", "8^{1/2}"], [r"\sqrt{6}", r"\sqrt{2}\sqrt{3}"]],
         [["x^2+2x+1", "(x+1)^2", "1+2x+x^2"], ["x^2-1", "(x-1)(x+1)"], ["x^2+1"]],
         [[r"\frac{\pi}{4}", r"\pi/4", r"0.25\pi"], [r"\frac{\pi}{3}", r"\pi/3"]],
         [[r"\{1,2,3\}", r"\{3,2,1\}"], [r"\{1,2\}", r"\{2, 1\}"]],
         [["[0,1]", r"\left[0,1\right]", "[0, 1]"], ["[0,1)", "[0, 1)"], ["(0,2)", r"\left(0, 2\right)"]],
         [[r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}"],
          [r"\begin{pmatrix}1&3\\2&4\end{pmatrix}"]],
         [["a+b", "b+a"], ["a-b", "-b+a"], ["ab", "ba"]],
         [[r"\sin(x)", r"\sin x"], [r"\cos(x)", r"\cos x"]],
         [["2^{10}", "1024", "4^5"], ["2^{11}", "2048"]]]


def grouped(number, mark):
    return f"{number:,}".replace(",", mark)


def numbers(rng):
    """An integer, fraction or mixed number, as it is expected, and answers that are equal to it and others that are not."""
    kind = rng.choice(["small", "large", "decimal", "fraction", "mixed", "negative", "price"])
    if kind == "price":
        cents = rng.randrange(100, 100000)
        way, other = rng.choice(PRICES), cents + rng.choice([1, 10, 100])
        return f"{cents / 100:.2f}", way.format(f"{cents / 100:.2f}"), way.format(f"{other / 100:.2f}")
    if kind == "large":
        value, mark = rng.randrange(1000, 10**9), rng.choice([",", "{,}", NO_BREAK, NARROW, " "])
        way = rng.choice(PLAIN if mark == "{,}" else ["{}", r"\boxed{{{}}}", "The answer is {}."])
        return str(value), way.format(grouped(value, mark)), way.format(grouped(value + 1, mark))
    if kind == "mixed":
        whole, below = rng.randrange(2, 9), rng.randrange(2, 9)
        value = whole + Fraction(1, below)
        write = rng.choice([r"{}\frac{{1}}{{{}}}", r"\${}\frac{{1}}{{{}}}"])
        way = rng.choice(["{}", r"\boxed{{{}}}", r"$\boxed{{{}}}$"])
        return (rf"\frac{{{value.numerator}}}{{{value.denominator}}}", way.format(write.format(whole, below)),
                way.format(write.format(whole, below + 1)))
    if kind == "fraction":
        value, factor = Fraction(rng.randrange(1, 30), rng.randrange(2, 30)), rng.randrange(1, 4)
        above, below = value.numerator * factor, value.denominator * factor + (value.denominator == 1)
        value = Fraction(above, below)
        way, write = rng.choice(PLAIN), rng.choice([r"\frac{{{}}}{{{}}}", r"\dfrac{{{}}}{{{}}}", "{}/{}"])
        return f"{value.numerator}/{value.denominator}", way.format(write.format(above, below)), way.format(
            write.format(above + 1, below))
    if kind == "decimal":
        value, way = rng.randrange(1, 100000) * 10 + rng.randrange(1, 10), rng.choice(PLAIN + NUMBERS)
        return f"{value / 1000:.3f}", way.format(f"{value / 1000:.3f}"), way.format(f"{(value + 1) / 1000:.3f}")
    value, way = rng.randrange(2, 500), rng.choice(PLAIN + NUMBERS)
    if kind == "negative":
        return f"-{value}", way.format(f"{rng.choice(['-', MINUS])}{value}"), way.format(str(value))
    return str(value), way.format(value), way.format(value + 1)


def expressions(rng):
    lines = rng.choice(ALIKE)
    line = rng.randrange(len(lines))
    other = lines[(line + 1) % len(lines)]
    way = rng.choice(PLAIN)
    return rng.choice(lines[line]), way.format(rng.choice(lines[line])), way.format(rng.choice(other))


def pairs():
    rng, made = random.Random(7), {}
    while len(made) < COUNT:
        expected, right, wrong = numbers(rng) if rng.random() < 0.7 else expressions(rng)
        made[(expected, right)] = True
        if len(made) < COUNT and len(made) % 3 == 0:
            made[(expected, wrong)] = False
    return [(*pair, equal) for pair, equal in made.items()]


def peer(expected, answer):
    try:
        return verify(parse(f"${expected}$"), parse(answer), float_rounding=12)
    except Exception:  # whatever it raises, it does not accept
        return False


def main():
    all_pairs = pairs()
    lines = "".join(json.dumps({"answer": answer, "task": {"answer": expected}}) + "\n" for expected, answer, _ in all_pairs)
    done = subprocess.run([sys.argv[1], sys.executable], input=lines, stdout=subprocess.PIPE, text=True, check=True)
    verdicts = done.stdout.splitlines()
    if len(verdicts) != len(all_pairs):
        sys.exit(f"compare_math: {len(verdicts)} verdicts of {len(all_pairs)} pairs")
    counts, wrong = {"equal": 0, "accepted": 0, "math-verify accepts": 0}, []
    for (expected, answer, equal), verdict in zip(all_pairs, verdicts):
        accepted, by_peer = verdict == "1", peer(expected, answer)
        counts["equal"] += equal
        counts["accepted"] += accepted and equal
        counts["math-verify accepts"] += by_peer and equal
        if verdict not in ("0", "1") or (accepted and not equal) or (equal and by_peer and not accepted):
            wrong.append(f"expected {expected!r}, answer {answer!r} ({'equal' if equal else 'not equal'}): {verdict}")
    print(f"{len(all_pairs)} pairs:", ", ".join(f"{name} {count}" for name, count in counts.items()))
    if wrong:
        sys.exit("compare_math: judged wrongly\n" + "\n".join(wrong))


if __name__ == "__main__":
    main()
