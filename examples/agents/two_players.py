#!/usr/bin/env python3
"""Plays one game of Nim between the roles white and black: two_players.py TASK.json

The players take turns, and each takes 1, 2, or 3 stones. Who takes the last one wins, and an illegal move loses. White begins.
A player sees only the heap, as a new conversation, because the heap is all that matters. It answers with the heap and its move,
such as "7-2". Each call names its role (metadata.ingot_role). TASK.json:

    {"heap": 7,                  stones at the start, 1 to 9
     "seat": "white",            the role of the trained model; absent: it plays both
     "opponent": "start",        the other role's model (gateway.models), with `seat`
     "max_tokens": 8}            of a move; optional

In self-play, the last call of the winner earns 1, that of the loser -1, and the episode 0, for `trainer.advantage_groups: role`.
With a seat, the episode earns 1 if the seat won and else 0. Signals: white_won, moves, and illegal (the game ended with an illegal
move); with a seat, also illegal_own and illegal_opponent. Exit codes: 0, 1 if a server failed, 2 for a mistake in the task.
"""
import sys

sys.path.insert(0, __file__.rpartition("/")[0] or ".")
import harness  # noqa: E402

ROLES = ("white", "black")
MOST = 3  # stones in one move


def legal(heap):
    return range(1, min(MOST, heap) + 1)


def question(heap):
    return f"heap {heap}"


def answer(heap, move):
    return f"{heap}-{move}"


def move_in(text, heap):
    """The legal move that a text consists of, or None."""
    return next((move for move in legal(heap) if text.strip() == answer(heap, move)), None)


def play(heap, move_of):
    """Plays a game in which `move_of(role, heap)` returns a player's text. Returns the roles of all moves, the winner, and whether
    the last move was illegal."""
    roles = []
    while True:
        role = ROLES[len(roles) % 2]
        roles.append(role)
        other = ROLES[len(roles) % 2]
        taken = move_in(move_of(role, heap), heap)
        if taken is None:
            return roles, other, True
        heap -= taken
        if heap == 0:
            return roles, role, False


def call_rewards(roles, winner):
    """1 for the winner's last call and -1 for the loser's. A role that has not moved has no call."""
    last = {role: turn for turn, role in enumerate(roles)}
    return [{"turn": turn, "reward": 1 if role == winner else -1} for role, turn in last.items()]


def signals_of(roles, winner, illegal, seat):
    signals = {"white_won": int(winner == "white"), "moves": len(roles), "illegal": int(illegal)}
    if seat:
        signals.update(illegal_own=int(illegal and winner != seat), illegal_opponent=int(illegal and winner == seat))
    return signals


def run(task):
    model, seat = harness.Model(), task.get("seat", "")
    if not 1 <= task["heap"] <= 9:
        raise harness.Mistake(f"'heap' is {task['heap']}: a game has 1 to 9 stones")
    if seat and (seat not in ROLES or not task.get("opponent")):
        raise harness.Mistake(f"'seat' is '{seat}': white or black, with the name of the opponent's model in 'opponent'")

    def ask(role, heap):
        name = task["opponent"] if seat and role != seat else None
        messages = [{"role": "user", "content": question(heap)}]
        return harness.text_of(model.ask(messages, max_tokens=task.get("max_tokens", 8), model=name, role=role))

    roles, winner, illegal = play(task["heap"], ask)
    signals = signals_of(roles, winner, illegal, seat)
    if seat:
        harness.post(int(winner == seat), signals)
    else:
        harness.post(0, signals, calls=call_rewards(roles, winner))
    return f"{winner} won in {len(roles)} moves" + (", the last one illegal" if illegal else "")


if __name__ == "__main__":
    sys.exit(harness.main(sys.argv, "two_players", run, {"heap": int}, seat=str, opponent=str, max_tokens=int))
