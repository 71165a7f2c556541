"""An environment of OpenEnv 0.3, served over WebSockets: server.py [PORT]. Each of two steps pays half the share of
lower-case letters in its text, so that what it teaches can be seen at once."""
import sys

import uvicorn
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

STEPS = 2


class Text(Action):
    text: str


class Asked(Observation):
    question: str


class Letters(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self.counted = State()

    def reset(self, seed=None, episode_id=None, **_):
        self.counted = State(episode_id=episode_id)
        return Asked(question="Say a word.")

    def step(self, action, timeout_s=None, **_):
        self.counted.step_count += 1
        text = action.text.strip()
        share = sum("a" <= c <= "z" for c in text) / max(1, len(text))
        return Asked(question="Say another.", reward=share / STEPS, done=self.counted.step_count == STEPS)

    @property
    def state(self):
        return self.counted


if __name__ == "__main__":
    app = create_app(Letters, Text, Asked, max_concurrent_envs=64)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]) if len(sys.argv) > 1 else 8000, log_level="warning")
