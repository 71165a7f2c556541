import sys

sys.path.insert(0, "/app")
CASES = [([], []), ([(1, 2)], [(1, 2)]), ([(5, 6), (1, 2)], [(1, 2), (5, 6)]), ([(1, 9), (2, 3)], [(1, 9)]),
         ([(1, 2), (3, 4)], [(1, 4)]), ([(1, 2), (4, 5)], [(1, 2), (4, 5)]), ([(0, 0), (0, 0), (1, 1)], [(0, 1)]),
         ([(-5, -1), (-9, 9), (10, 12)], [(-9, 12)])]


def passes(given, wanted):
    try:
        from intervals import merge
        return [tuple(one) for one in merge(list(given))] == wanted
    except Exception:
        return False


print(int(all(passes(*case) for case in CASES)))
