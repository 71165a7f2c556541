#!/usr/bin/env python3
"""`ingot serve --learn` with the simulated users of examples/realtime: realtime_tests.py BINARY SOURCE CASE."""
import json
import pathlib
import subprocess
import sys
import time

from ingot_runs import check, main, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples" / "realtime"))
import simulate  # noqa: E402

SMALL = {"sft.max_steps": 100, "learn.round_answers": 32, "scheduler.groups_per_step": 16, "http.port": 0,
         "learn.require": "[reward_mean >= 0]"}


class Server:
    """`ingot serve --learn` in the test's folder."""

    def __init__(self, ingot, settings):
        self.ingot, self.settings, self.folder = ingot, settings, pathlib.Path(ingot.folder) / "realtime"
        subprocess.run([sys.executable, "examples/realtime/generate.py", "--out", ingot.folder], cwd=ingot.source, check=True)
        ingot.config = "examples/realtime/run.yaml"
        self.settings = {"data.sft": f"{ingot.folder}/sft.jsonl", "learn.users_file": f"{ingot.folder}/users",
                         "eval.tasks": f"{ingot.folder}/eval.jsonl", **settings}
        self.keys = list(simulate.read_users(f"{ingot.folder}/users").values())

    def start(self, *extra):
        self.process = self.ingot.start(["serve", "--learn"], self.settings, extra)
        for line in self.process.stdout:
            if "learning from" in line:
                self.url = line.split(" at ")[1].split("/v1")[0]
                return
        check(False, f"the server ended with {self.process.wait()}")

    def ask(self, key, path, body):
        return simulate.post(self.url, key, path, body)

    def answer(self, key):
        status, reply = self.ask(key, "/v1/chat/completions",
                                 {"messages": [{"role": "user", "content": "code a"}], "temperature": 1})
        check(status == 200, f"an answer: {status} {reply}")
        return reply["id"]

    def rate(self, key, answer, reward):
        status, reply = self.ask(key, "/v1/feedback", {"id": answer, "reward": reward})
        return status, reply.get("error", {}).get("code")

    def rounds(self):
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("rounds/*.json"))]

    def stop(self):
        self.process.terminate()
        check(self.process.wait(60) == 0, "the server did not end in order")


def case_learn(ingot):
    """Feedback of every kind, a kill -9 between training and deployment, and a version that no gate passes."""
    server = Server(ingot, SMALL)
    server.start()
    alice, bob = server.keys[:2]
    first = server.answer(alice)
    check(server.rate(alice, first, 1) == (200, None), "feedback")
    check(server.rate(alice, first, 1) == (200, None), "the same feedback twice")
    check(server.rate(alice, first, 0) == (200, None), "other feedback before a round")
    check(server.rate(bob, first, 1) == (404, "unknown_answer"), "feedback on another user's answer")
    check(server.rate("a-key-that-nobody-has", first, 1) == (403, "not_opted_in"), "feedback without opting in")
    stranger = server.answer("a-key-that-nobody-has")
    check(server.rate(alice, stranger, 1) == (404, "unknown_answer"), "feedback on an answer that is not recorded")

    given = {first.split("-")[1]: 0}
    for i in range(31):
        answer = server.answer(alice)
        check(server.rate(alice, answer, i % 2) == (200, None), "feedback")
        given[answer.split("-")[1]] = i % 2
    wait_until(lambda: list(server.folder.glob("rounds/candidate-1/step-*")), "a candidate", server.process)
    server.process.kill()  # between training and deployment
    server.process.wait()
    check([one["outcome"] for one in server.rounds()] == ["deployed", "open"], f"after the kill: {server.rounds()}")
    trained = sorted((server.folder / "rounds/candidate-1").glob("step-*"))[0]
    weights = (trained / "model.safetensors").read_bytes()

    server.start("--resume")
    wait_until(lambda: server.rounds()[-1]["outcome"] != "open", "the round's decision", server.process)
    one = server.rounds()[-1]
    check(one["outcome"] == "deployed" and one["version"] == 2, f"the round ended as {one}")
    check({answer["call"]: answer["reward"] for answer in one["answers"]} == given, "the round lost feedback")
    wait_until(lambda: not list(server.folder.glob("rounds/candidate-*")), "the round to be settled", server.process)
    kept = server.folder / "checkpoints" / trained.name / "model.safetensors"
    check(kept.read_bytes() == weights, "another version was deployed than was trained")
    check((server.folder / "checkpoints/step-00000000/model.safetensors").exists(), "the first version was not kept")
    check(server.rate(alice, first, 0) == (200, None), "the same feedback after training")
    check(server.rate(alice, first, 1) == (409, "feedback_trained"), "other feedback after training")
    server.stop()

    server.settings.update({"learn.require": "[reward_mean >= 2]", "learn.max_rejected": 1})
    server.start("--resume")
    for i in range(32):
        check(server.rate(bob, server.answer(bob), i % 2) == (200, None), "feedback")
    wait_until(lambda: server.rounds()[-1]["outcome"] == "rejected", "a rejected round", server.process)
    last = server.rounds()[-1]
    check("NOT met" in last["reasons"][0], f"the reasons are {last['reasons']}")
    time.sleep(1)
    check(server.rate(bob, server.answer(bob), 1) == (200, None), "the server that stopped training serves no longer")
    check(not (server.folder / "checkpoints/step-00000004").exists(), "a rejected version was kept")
    server.stop()


def case_taste(ingot):
    """The users' reward rises, falls when their taste changes, and recovers."""
    server = Server(ingot, {"http.port": 0})
    server.start()
    with simulate.Users(server.url, server.keys, server.folder) as users:
        before = simulate.follow(users, server.folder, 25)
        users.style = "polite"
        rounds = simulate.follow(users, server.folder, 65)
    server.stop()

    def mean(some):
        return sum(one["reward_mean"] for one in some) / len(some)

    start, risen, fallen, recovered = mean(before[:3]), mean(before[-3:]), mean(rounds[27:30]), mean(rounds[-3:])
    print(f"start {start:.2f}, before the change {risen:.2f}, after it {fallen:.2f}, recovered {recovered:.2f}")
    check(risen > start + 0.2 and fallen < risen - 0.2 and recovered > fallen + 0.2, "the users' reward")
    trained = {answer["call"]: answer["reward"] for one in rounds for answer in one["answers"]}
    for answer, reward in trained.items():
        check(users.acknowledged.get("chatcmpl-" + answer, reward) == reward, f"answer {answer} was trained with {reward}")


if __name__ == "__main__":
    main(case_learn, case_taste)
