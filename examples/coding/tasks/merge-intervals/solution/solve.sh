#!/bin/bash
cd /app
cat > intervals.py <<'PYTHON'
def merge(intervals):
    merged = []
    for first, last in sorted(intervals):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged
PYTHON
