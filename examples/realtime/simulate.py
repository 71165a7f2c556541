#!/usr/bin/env python3
"""Simulates users of `ingot serve --learn`: simulate.py RUN_FOLDER URL USERS_FILE [--before N] [--after N].

Each user asks, waits for the answer, and gives a reward of 1 if the letter is right and the style is the one that users
currently prefer, and otherwise 0. They prefer brief answers until round N (--before) is decided, and then polite ones
for N more rounds (--after). Prints each round's mean reward. Users pause while two rounds' feedback waits, and retry
while the server restarts.
"""
import argparse
import json
import pathlib
import random
import threading
import time
import urllib.error
import urllib.request

from generate import LETTERS, RULE, STYLES, question


def post(url, key, path, body):
    """The status and the JSON of the reply."""
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {
        "Content-Type": "application/json", "Authorization": "Bearer " + key})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def read_users(path):
    """Key by name."""
    return dict(line.split() for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines())


def read_rounds(folder):
    """The decided rounds with answers, in order."""
    rounds = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(pathlib.Path(folder, "rounds").glob("*.json"))]
    return [one for one in rounds if one["outcome"] != "open" and one["answers"]]


class Users:
    """Asks and rewards on one thread per user until stopped. `acknowledged` has the reward of each answer, by its id."""

    def __init__(self, url, keys, folder, round_answers=64):
        self.url, self.folder, self.round_answers = url, folder, round_answers
        self.style = "brief"
        self.acknowledged = {}
        self.lock = threading.Lock()
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=self.live, args=(key, i), daemon=True) for i, key in enumerate(keys)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join(120)

    def waiting(self):
        """Acknowledged feedback that no round has trained on."""
        return len(self.acknowledged) - sum(len(one["answers"]) for one in read_rounds(self.folder))

    def live(self, key, seed):
        rng = random.Random(seed)
        while not self.stopped.is_set():
            if self.waiting() >= 2 * self.round_answers:
                time.sleep(0.1)
                continue
            try:
                self.converse(key, rng)
            except OSError:  # the server restarts
                time.sleep(0.2)

    def converse(self, key, rng):
        code = rng.choice(LETTERS)
        status, reply = post(self.url, key, "/v1/chat/completions",
                             {"messages": [{"role": "user", "content": question(code)}], "temperature": 1})
        if status != 200:
            time.sleep(0.2)
            return
        content = reply["choices"][0]["message"]["content"] or ""
        reward = 1 if content.strip() == STYLES[self.style].format(RULE[code]) else 0
        while not self.stopped.is_set():  # feedback may be sent again until it is acknowledged
            try:
                status, said = post(self.url, key, "/v1/feedback", {"id": reply["id"], "reward": reward})
            except OSError:
                time.sleep(0.2)
                continue
            if status == 200:
                with self.lock:
                    self.acknowledged[reply["id"]] = reward
                return
            if status not in (429, 503):
                print(f"feedback on {reply['id']} was rejected: {said}", flush=True)
                return
            time.sleep(0.2)


def describe(one):
    bar = "#" * round(40 * one["reward_mean"])
    return (f"round {one['round']:3}  {one['outcome']:8}  version {one['version']:4}  users {one['reward_mean']:.2f}  "
            f"evaluation {one['evaluation'].get('eval/reward_mean', float('nan')):.2f}  {bar}")


def follow(users, folder, rounds):
    """Prints new rounds until there are `rounds`, and returns them."""
    shown = len(read_rounds(folder))
    while shown < rounds:
        for one in read_rounds(folder)[shown:]:
            print(describe(one), flush=True)
            shown += 1
        time.sleep(0.2)
    return read_rounds(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="runs/NAME")
    parser.add_argument("url", help="http://127.0.0.1:8000")
    parser.add_argument("users", help="the file with the users' keys")
    parser.add_argument("--before", type=int, default=12, help="rounds before the taste changes")
    parser.add_argument("--after", type=int, default=20, help="rounds after it")
    options = parser.parse_args()
    began = len(read_rounds(options.folder))
    with Users(options.url, read_users(options.users).values(), options.folder) as users:
        follow(users, options.folder, began + options.before)
        users.style = "polite"
        print("the users now prefer polite answers", flush=True)
        follow(users, options.folder, began + options.before + options.after)


if __name__ == "__main__":
    main()
