#!/usr/bin/env python3
"""Plays one game of Nim with the model against a scripted opponent: agent.py TASK.json

TASK.json is {"heap": N, "skill": S, "seed": K}. The players take turns, and each takes 1, 2, or 3 stones; the player
who takes the last one wins. The model begins. The opponent makes the winning move, if there is one, with probability S,
and otherwise any move. The last line printed is `won`, `lost`, or `illegal`.

This program uses Ingot only through OPENAI_BASE_URL and OPENAI_API_KEY, so it also works with any other server.
"""
import json
import os
import random
import sys
import time
import urllib.error
import urllib.request

MOST = 3


def ask(messages):
    body = json.dumps({"model": "policy", "messages": messages}).encode()
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, {
        "Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
    for attempt in range(5):
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["choices"][0]["message"].get("content") or ""
        except urllib.error.HTTPError as error:
            if error.code not in (429, 503) or attempt == 4:
                raise
            time.sleep(0.5 * (attempt + 1))


def legal(heap):
    return range(1, min(MOST, heap) + 1)


def reply(heap, skill, rng):
    """The opponent's move. A heap that leaves a multiple of 4 wins."""
    winning = [move for move in legal(heap) if (heap - move) % (MOST + 1) == 0]
    if winning and rng.random() < skill:
        return winning[0]
    return rng.choice(list(legal(heap)))


def play(task, move_of):
    """The outcome of a game in which `move_of` answers the messages with the model's text."""
    rng, heap, messages = random.Random(task["seed"]), task["heap"], []
    text = f"heap {heap}"
    while True:
        messages.append({"role": "user", "content": text})
        said = move_of(messages)
        messages.append({"role": "assistant", "content": said})
        word = said.strip()
        if not word.isdecimal() or int(word) not in legal(heap):
            return "illegal"
        heap -= int(word)
        if heap == 0:
            return "won"
        taken = reply(heap, task["skill"], rng)
        heap -= taken
        if heap == 0:
            return "lost"
        text = f"took {taken}, heap {heap}"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        print(play(json.load(file), ask))


if __name__ == "__main__":
    main()
