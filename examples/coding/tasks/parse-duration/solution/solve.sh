#!/bin/bash
cd /app
cat > durations.py <<'PYTHON'
import re

SECONDS = {"s": 1, "m": 60, "h": 60 * 60, "d": 24 * 60 * 60}


def parse(text):
    if not re.fullmatch("([0-9]+[smhd])+", text):
        raise ValueError(text)
    return sum(int(number) * SECONDS[unit] for number, unit in re.findall("([0-9]+)([smhd])", text))
PYTHON
