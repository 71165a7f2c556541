"""reasoning-gym's own scorer as a verifier's function: the answer between <answer> tags, scored by the task's dataset."""
import functools

import reasoning_gym
from reasoning_gym.utils import extract_answer


@functools.lru_cache(maxsize=None)
def dataset_of(name, seed, size):
    return reasoning_gym.create_dataset(name, seed=seed, size=size)


def score(task, answer):
    dataset = dataset_of(task["dataset"], task["seed"], task["size"])
    entry = dataset[task["index"]]
    if entry["question"] != task["prompt"]:
        raise ValueError(f"{task['task_id']} is another task in the installed reasoning-gym: run prepare.py again")
    return float(dataset.score_answer(extract_answer(answer), entry))
