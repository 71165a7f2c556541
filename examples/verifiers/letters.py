"""A taskset of verifiers: the reward is the share of lower-case letters in the answer."""
import verifiers.v1 as vf

QUESTIONS = ("Say hello.", "Name a colour.", "Name an animal.", "Write one word.", "What is the opposite of cold?",
             "Name a fruit.", "Name a tool.", "Name a river.")


class LettersData(vf.TaskData):
    pass


class LettersTask(vf.Task[LettersData]):
    @vf.reward(weight=1.0)
    async def lower_case(self, trace: vf.Trace) -> float:
        answer = (trace.last_reply or "").strip()
        return sum("a" <= c <= "z" for c in answer) / max(1, len(answer))

    @vf.metric
    async def characters(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply or ""))


class LettersConfig(vf.TasksetConfig):
    pass


class LettersTaskset(vf.Taskset[LettersTask, LettersConfig]):
    def load(self):
        return [LettersTask(LettersData(prompt=question), self.config.task) for question in QUESTIONS]


__all__ = ["LettersTaskset"]
