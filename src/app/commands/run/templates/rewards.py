"""The reward of an episode: run.yaml names `score` as the verifier. An edit counts from the next episode on.

Ask for what you need, by name:
  task        the task's line in tasks.jsonl, as a dictionary
  answer      the last line that the agent printed
  messages    the model's messages in the episode, in OpenAI's form, with their tool calls
  episode_id
"""


def score(task, answer):
    # A number, or a dictionary of terms: their sum is the reward, and each has its own curve on the page.
    return {"right": float(answer.strip() == task["answer"]), "form": 0.1 * answer.strip().isalpha()}
