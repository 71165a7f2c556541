"""Closed intervals of integers, as pairs (first, last)."""


def merge(intervals):
    """Returns the smallest sorted list of intervals with the same integers. Neighbors such as (1, 2) and (3, 4) merge."""
    merged = []
    for first, last in sorted(intervals):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    return merged
