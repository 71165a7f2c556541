#!/usr/bin/env python3
"""Plays one game of Nim in which the model plays both sides: agent.py TASK.json

    OPENAI_BASE_URL=http://host:port/v1 OPENAI_API_KEY=... INGOT_EPISODE_ID=... agent.py TASK.json

TASK.json: {"heap": 11, "seat": "both"}

The players `first` and `second` take turns, and each takes 1, 2, or 3 stones. The player who takes the last stone wins. A
player who answers anything else loses. Each call names its player as its role, and each player's last call gets the reward 1 or
-1. The episode's own reward is 0.

In an evaluation, "seat" is `first` or `second`. The model `policy` plays this seat, and the model `start` plays the other one.
The episode's reward is 1 if `policy` wins and 0 otherwise.
"""
import sys

sys.path.insert(0, __file__.rpartition("/")[0] + "/../agents")
import harness  # noqa: E402

MOST = 3
PLAYERS = ("first", "second")
MAX_TOKENS = 4


def legal(heap):
    return range(1, min(MOST, heap) + 1)


def prompt(heap):
    return {"role": "user", "content": f"heap {heap}"}


def game(heap, move_of):
    """The players of the moves, in order, the winner's number, and whether the last move was legal. `move_of(player, heap)` is
    a player's text."""
    moves = []
    while True:
        player = len(moves) % 2
        moves.append(player)
        word = move_of(player, heap).strip()
        if word not in map(str, legal(heap)):
            return moves, 1 - player, False
        heap -= int(word)
        if heap == 0:
            return moves, player, True


def rewards_of(moves, winner):
    """A reward for each player's last call. A player who has not moved has none."""
    last = {player: turn for turn, player in enumerate(moves)}
    return [{"turn": turn, "reward": 1 if player == winner else -1} for player, turn in last.items()]


def play(task):
    seat, model = task.get("seat", "both"), harness.Model()
    if seat not in ("both", *PLAYERS):
        raise harness.Mistake(f"the seat '{seat}' is not both, first, or second")

    def ask(player, heap):
        name = "policy" if seat in ("both", PLAYERS[player]) else "start"
        return harness.text_of(model.ask([prompt(heap)], max_tokens=MAX_TOKENS, model=name, role=PLAYERS[player]))

    moves, winner, finished = game(task["heap"], ask)
    signals = {"game/moves": len(moves), "game/first_won": int(winner == 0), "game/illegal": int(not finished)}
    if seat == "both":
        harness.post(0, signals, calls=rewards_of(moves, winner))
    else:
        harness.post(int(PLAYERS[winner] == seat), signals)
    return PLAYERS[winner]


if __name__ == "__main__":
    sys.exit(harness.main(sys.argv, "selfplay", play, {"heap": int}, seat=str))
