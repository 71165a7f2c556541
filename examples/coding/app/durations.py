"""Durations such as 1h30m."""
import re

SECONDS = {"s": 1, "m": 60, "h": 60 * 60, "d": 24 * 60}


def parse(text):
    """Returns the seconds of a duration such as "90s" or "1d2h3m4s". Raises ValueError for any other text."""
    total = 0
    for number, unit in re.findall(r"([0-9]+)([smhd])", text):
        total += int(number) * SECONDS[unit]
    return total
