"""An Inspect task: the score is the share of lower-case letters in the answer."""
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import Score, mean, scorer
from inspect_ai.solver import generate

QUESTIONS = {"hello": "Say hello.", "colour": "Name a colour.", "animal": "Name an animal.", "word": "Write one word."}


@scorer(metrics=[mean()])
def lower_case():
    async def score(state, target):
        answer = state.output.completion.strip()
        return Score(value=sum("a" <= c <= "z" for c in answer) / max(1, len(answer)), answer=answer)

    return score


@task
def letters():
    return Task(dataset=[Sample(id=name, input=text) for name, text in QUESTIONS.items()], solver=generate(),
                scorer=lower_case())
