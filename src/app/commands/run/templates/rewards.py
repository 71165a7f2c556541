"""Computes the reward of an episode. run.yaml names `score` as the verifier. Edits take effect with the next episode.

Name the arguments that you need:
  task        the task's line in tasks.jsonl, as a dictionary
  answer      the last line that the agent printed
  messages    the model's messages in the episode, in OpenAI format, with their tool calls
  episode_id
"""


def score(task, answer):
    # Return a number or a dictionary of terms. The sum of the terms is the reward, and the page shows a curve for each.
    return {"right": float(answer.strip() == task["answer"]), "form": 0.1 * answer.strip().isalpha()}
