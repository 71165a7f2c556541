#!/usr/bin/env python3
"""`ingot serve --learn` with the simulated users of examples/realtime: realtime_tests.py BINARY SOURCE CASE.

Cases: learn (feedback of every kind, a rollback, and a version that no gate passes), kills (kill -9 at every moment of a round),
judge (feedback from next messages, by a scripted judge), taste (the users' taste changes).
"""
import http.server
import json
import pathlib
import subprocess
import sys
import threading
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

    def kill(self):
        self.process.kill()
        self.process.wait()

    def decided(self, number):
        """The decision on a round, as soon as there is one."""
        wait_until(lambda: len(self.rounds()) > number and self.rounds()[number]["outcome"] != "open", f"the decision on round {number}",
                   self.process)
        return self.rounds()[number]

    def weights(self, version):
        return (self.folder / f"checkpoints/step-{version:08d}/model.safetensors").read_bytes()

    def answer(self, key):
        status, reply = self.ask(key, "/v1/chat/completions",
                                 {"messages": [{"role": "user", "content": "code a"}], "temperature": 1})
        check(status == 200, f"an answer: {status} {reply}")
        return reply["id"]

    def converse(self, key, message):
        """The id of an answer after which the user writes a message."""
        asked = [{"role": "user", "content": "code a"}]
        status, reply = self.ask(key, "/v1/chat/completions", {"messages": asked, "temperature": 1})
        check(status == 200, f"an answer: {status} {reply}")
        said = reply["choices"][0]["message"]
        status, more = self.ask(key, "/v1/chat/completions", {"messages": [*asked, said, {"role": "user", "content": message}]})
        check(status == 200, f"the next answer: {status} {more}")
        return reply["id"]

    def rate_answers(self, key, count):
        """Acknowledged rewards of new answers, by call."""
        given = {}
        for i in range(count):
            answer = self.answer(key)
            check(self.rate(key, answer, i % 2) == (200, None), "feedback")
            given[answer.split("-")[1]] = i % 2
        return given

    def rate(self, key, answer, reward):
        status, reply = self.ask(key, "/v1/feedback", {"id": answer, "reward": reward})
        return status, reply.get("error", {}).get("code")

    def rounds(self):
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("rounds/round-*.json"))]

    def stop(self):
        self.process.terminate()
        check(self.process.wait(60) == 0, "the server did not end in order")


def case_learn(ingot):
    """Feedback of every kind, a kill -9 between training and deployment, a rollback, and a version that no gate passes."""
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

    given = {first.split("-")[1]: 0, **server.rate_answers(alice, 31)}
    wait_until(lambda: list(server.folder.glob("rounds/candidate-1/step-*")), "a candidate", server.process)
    server.kill()  # between training and deployment
    check([one["outcome"] for one in server.rounds()] == ["deployed", "open"], f"after the kill: {server.rounds()}")
    trained = sorted((server.folder / "rounds/candidate-1").glob("step-*"))[0]
    weights = (trained / "model.safetensors").read_bytes()

    server.start("--resume")
    one = server.decided(1)
    check(one["outcome"] == "deployed" and one["version"] == 2, f"the round ended as {one}")
    check({answer["call"]: answer["reward"] for answer in one["answers"]} == given, "the round lost feedback")
    wait_until(lambda: not list(server.folder.glob("rounds/candidate-*")), "the round to be settled", server.process)
    check(server.weights(2) == weights, "another version was deployed than was trained")
    check((server.folder / "checkpoints/step-00000000/model.safetensors").exists(), "the first version was not kept")
    check(server.rate(alice, first, 0) == (200, None), "the same feedback after training")
    check(server.rate(alice, first, 1) == (409, "feedback_trained"), "other feedback after training")

    roll_back(ingot, server, alice)
    server.stop()

    server.settings.update({"learn.require": "[reward_mean >= 2]", "learn.max_rejected": 1})
    server.start("--resume")
    server.rate_answers(bob, 32)
    last = server.decided(3)
    check(last["outcome"] == "rejected" and "NOT met" in last["reasons"][0], f"the round ended as {last}")
    time.sleep(1)
    check(server.rate(bob, server.answer(bob), 1) == (200, None), "the server that stopped training serves no longer")
    check(not (server.folder / "checkpoints/step-00000005").exists(), "a rejected version was kept")
    done = ingot.call("serve", "rollback", server.folder, "--to", 2)
    check(done.returncode == 0, done)
    check(server.decided(4)["restores"] == 2 and server.decided(4)["outcome"] == "deployed", "no rollback after training stopped")
    server.stop()


def roll_back(ingot, server, user):
    """The operator goes back from version 2 to version 0, over a kill -9."""
    for words, message in ((("--to", 7), "version 7 is not kept"), (("--to", 7), "the deployed versions 0, 2"),
                           (("--to", 2), "version 2 is the deployed version")):
        done = ingot.call("serve", "rollback", server.folder, *words)
        check(done.returncode != 0 and message in done.stderr, done)
    done = ingot.call("serve", "rollback", ingot.folder)
    check(done.returncode == 2 and "no folder 'rounds'" in done.stderr, done)
    check(len(server.rounds()) == 2, "a rejected request changed the rounds")
    done = ingot.call("serve", "rollback", server.folder)
    check(done.returncode == 0 and "rollback from version 2 to version 0: the server" in done.stdout, done)
    server.kill()  # it may not have seen the request
    server.start("--resume")
    one = server.decided(2)
    check((one["outcome"], one["restores"], one["version"], one["answers"]) == ("deployed", 0, 3, []), f"the rollback is {one}")
    check("the operator rolled back to version 0" in one["reasons"], f"the rollback is {one}")
    wait_until(lambda: not list(server.folder.glob("rounds/candidate-*")), "the rollback to be settled", server.process)
    check(server.weights(3) == server.weights(0) != server.weights(2), "other weights than those of version 0")
    check(not (server.folder / "rounds/rollback.json").exists(), "the request is still there")
    server.kill()
    server.start("--resume")
    server.answer(user)
    check(len(server.rounds()) == 3, "the rollback was repeated")


def case_kills(ingot):
    """A kill -9 after acknowledged feedback, during the evaluation, and after the decision loses nothing."""
    server = Server(ingot, SMALL)
    server.start()
    alice, given = server.keys[0], {}
    for _ in range(4):  # after feedback was acknowledged
        given |= server.rate_answers(alice, 7)
        server.kill()
        server.start("--resume")
    wait_until(server.rounds, "the first version's evaluation", server.process)
    given |= server.rate_answers(alice, 4)
    wait_until(lambda: (server.folder / "evaluations/round-1/config.yaml").exists(), "an evaluation", server.process)
    server.kill()  # during the evaluation
    check(server.rounds()[-1]["outcome"] == "open", f"after the kill: {server.rounds()[-1]}")
    trained = (server.folder / "rounds/candidate-1/step-00000002/model.safetensors").read_bytes()

    obstacle = server.folder / "checkpoints/step-00000002"  # keeps the version from its place
    (obstacle / "file").parent.mkdir()
    (obstacle / "file").write_text("x")
    server.start("--resume")
    one = server.decided(1)
    check({answer["call"]: answer["reward"] for answer in one["answers"]} == given, "the round lost feedback")
    server.kill()  # after the deployment began
    check((server.folder / "rounds/candidate-1/step-00000002").exists(), "the version was moved over something else")
    (obstacle / "file").unlink()
    obstacle.rmdir()
    server.start("--resume")
    wait_until(lambda: not list(server.folder.glob("rounds/candidate-*")), "the round to be settled", server.process)
    server.kill()  # after the move
    server.start("--resume")
    check(server.rounds()[-1] == one and server.weights(2) == trained, "the deployed version changed")
    check(server.rate(alice, server.answer(alice), 1) == (200, None), "feedback after the kills")
    server.stop()


class Judge(http.server.BaseHTTPRequestHandler):
    """A judge with OpenAI's API: what it says depends on the user's next message alone."""
    VERDICTS = {"thanks": "satisfied", "wrong": "dissatisfied", "anyway": "unclear"}
    asked = []

    def do_POST(self):
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"][1]["content"]
        self.asked.append(question)
        word = question.rpartition("[NEXT MESSAGE")[2].splitlines()[1]
        said = json.dumps({"reasoning": "a script", "verdict": self.VERDICTS[word]}) if word in self.VERDICTS else "perhaps"
        body = json.dumps({"choices": [{"message": {"role": "assistant", "content": said}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def case_judge(ingot):
    """A judge reads feedback from next messages. Explicit feedback wins, and what is unclear counts for nothing."""
    judge = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Judge)
    threading.Thread(target=judge.serve_forever, daemon=True).start()
    settings = {**SMALL, "sft.max_steps": 40, "learn.judge.model": "judge", "learn.judge.concurrency": 1,
                "learn.judge.url": f"http://127.0.0.1:{judge.server_port}/v1"}
    for key, value, message in (("learn.judge.url", "", "which this server does not serve"), ("learn.judge.satisfied", 1e7, "learn.judge.satisfied")):
        server = Server(ingot, {**settings, key: value})
        code, output = ingot.run(["serve", "--learn"], server.settings)
        check(code == 2 and message in output, output)
    server = Server(ingot, settings)
    server.start()
    alice = server.keys[0]
    expected = {}
    for word, count in (("anyway", 2), ("nonsense", 2), ("thanks", 15), ("wrong", 16)):
        for _ in range(count):
            call = server.converse(alice, word).split("-")[1]
            if word in ("thanks", "wrong"):
                expected[call] = (1 if word == "thanks" else 0, True)
    own = server.answer(alice)
    check(server.rate(alice, own, 0.5) == (200, None), "explicit feedback")
    expected[own.split("-")[1]] = (0.5, False)
    one = server.decided(1)
    check({answer["call"]: (answer["reward"], answer["judged"]) for answer in one["answers"]} == expected, f"the round is {one}")
    check(len(Judge.asked) == 2 + 2 * 2 + 31, f"{len(Judge.asked)} questions")
    server.stop()
    log = (server.folder / "logs/ingot.log").read_text(encoding="utf-8")
    check(log.count("was not judged, and gives no reward: the judge's answer is not one JSON object") == 2, log)


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
    main(case_learn, case_kills, case_judge, case_taste)
