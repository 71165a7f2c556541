"""1 for the right number after the last "Answer:", and 0.1 for the format alone."""
import json
import re
from decimal import Decimal, InvalidOperation


def number(text):
    """Parses a number as people write it, such as 1,234 or $5 or 7.50. None if there is none."""
    found = re.search(r"-?[\d,]*\.?\d+", text.replace("$", ""))
    try:
        return Decimal(found.group().replace(",", "")) if found else None
    except InvalidOperation:
        return None


def score(task, answer):
    parts = json.loads(answer).rsplit("Answer:", 1)
    said = number(parts[1]) if len(parts) == 2 else None
    return {"right": float(said is not None and said == number(task["answer"])), "form": 0.1 * (said is not None)}
