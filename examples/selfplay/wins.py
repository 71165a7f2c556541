#!/usr/bin/env python3
"""Prints the win shares of a run's evaluations with their 95% intervals: wins.py RUN

Reads RUN/metrics.jsonl. A row gives a version's wins against the start version over both seats, then in each seat. The
intervals are Wilson's. Games are independent, because each evaluation plays its own games.
"""
import json
import pathlib
import sys

Z = 1.959964  # 95%


def wilson(wins, games):
    """The interval of a share of `wins` out of `games`."""
    if not games:
        return 0.0, 1.0
    share, square = wins / games, Z * Z / games
    middle = (share + square / 2) / (1 + square)
    half = Z * (share * (1 - share) / games + square / games / 4) ** 0.5 / (1 + square)
    return middle - half, middle + half


def shown(row, suffix):
    games = row["eval/episodes" + suffix]
    share = row["eval/reward_mean" + suffix]
    low, high = wilson(share * games, games)
    return f"{share:.3f} ({low:.3f} to {high:.3f}), {games:.0f} games"


def main():
    path = pathlib.Path(sys.argv[1], "metrics.jsonl")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        if "eval/reward_mean" in row:
            print(f"version {row['eval/version']:.0f}: {shown(row, '')}; first {shown(row, '@domain:first')}; "
                  f"second {shown(row, '@domain:second')}")


if __name__ == "__main__":
    main()
