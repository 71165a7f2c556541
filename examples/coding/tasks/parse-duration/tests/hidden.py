import sys

sys.path.insert(0, "/app")
RIGHT = {"0s": 0, "90s": 90, "2m": 120, "1h30m": 5400, "1d": 86400, "1d2h3m4s": 93784}
WRONG = ["", "soon", "5", "1h!", "h", "1h 2m", "-1s", "1.5h"]


def value_of(text):
    try:
        from durations import parse
        return parse(text)
    except ValueError:
        return "ValueError"
    except BaseException:
        return None


print(int(all(value_of(text) == seconds for text, seconds in RIGHT.items()) and all(value_of(text) == "ValueError" for text in WRONG)))
