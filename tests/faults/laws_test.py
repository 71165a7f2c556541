#!/usr/bin/env python3
"""The checks of the fault tests hold for a lawful run, and each finds the breach that it is for."""
import copy
import unittest

import laws

SETTINGS = laws.Settings(groups_per_step=2, staleness=1, fraction=0.5, checkpoint_every=2)  # budget 4, window 2, ages to 2


def admitted(group, version):
    return {"admitted": {"groupId": str(group), "admittedVersion": str(version)}}


def rewarded(group):
    return {"rewarded": {"groupId": str(group)}}


def batch(step, *groups):
    return {"batch": {"step": str(step), "groupIds": [str(group) for group in groups]}}


def live(version):
    return {"live": {"version": str(version)}}


def checkpoint(step):
    return {"checkpoint": {"step": str(step)}}


# Two steps; group 2 was dropped.
JOURNAL = [admitted(0, 0), admitted(1, 0), admitted(2, 0), admitted(3, 0), rewarded(1), rewarded(0), batch(0, 0, 1), live(1),
           {"closed": {"groupId": "2"}}, admitted(4, 1), rewarded(4), rewarded(3), batch(1, 3, 4), live(2), checkpoint(2)]
ROWS = [{"step": step, "version": step + 1, "actor/loss": 0.0, "async/staleness_max": 1} for step in range(2)]
TREES = [{"episode": {"ref": {"groupId": str(group)}, "state": "EPISODE_FINISHED"}, "calls": [{"callId": f"call-{group}"}]}
         for group in (0, 1, 3, 4)]
ANSWERS = [f"chatcmpl-call-{group}" for group in (0, 1, 3, 4)]
BATCHES = [[0, 1], [3, 4]]


class Laws(unittest.TestCase):
    def broken(self, said, journal):
        with self.assertRaisesRegex(laws.Broken, said):
            laws.check_journal(journal, SETTINGS, 2)

    def replaced(self, old, *new):
        at = JOURNAL.index(old)
        return JOURNAL[:at] + list(new) + JOURNAL[at + 1:]

    def test_lawful(self):
        self.assertEqual(laws.check_journal(JOURNAL, SETTINGS, 2), BATCHES)
        laws.check_rows(ROWS, SETTINGS, 2)
        self.assertEqual(laws.check_calls(ANSWERS, TREES, BATCHES), 4)

    def test_rewards(self):
        trees = [{"episode": {"episodeId": "a", "reward": 0.5}}, {"episode": {"episodeId": "b"}}]
        laws.check_rewards({"a": 0.5}, trees)
        for said, rewards in (("reward 0.5, and 0.25", {"a": 0.25}), ("reward None", {"b": 1.0}), ("is not stored", {"c": 1.0})):
            with self.assertRaisesRegex(laws.Broken, said):
                laws.check_rewards(rewards, trees)

    def test_batches(self):
        self.broken("group 1, which is trained", self.replaced(batch(1, 3, 4), batch(1, 1, 3)))
        self.broken("batch 0 stands where batch 1", self.replaced(batch(1, 3, 4), batch(0, 3, 4)))
        self.broken("batch 1: ", self.replaced(batch(1, 3, 4), batch(1, 3)))
        self.broken("group 2, which is closed", self.replaced(batch(1, 3, 4), batch(1, 2, 3)))
        self.broken("group 4, which is open", [one for one in JOURNAL if one != rewarded(4)])
        self.broken("1 batches of 2", JOURNAL[:8])

    def test_window_and_age(self):
        self.broken("group 3, beyond the window at 0", JOURNAL[:5] + [rewarded(3), batch(0, 1, 3)])
        narrow = laws.Settings(groups_per_step=2, staleness=0, fraction=0.5, checkpoint_every=2)
        with self.assertRaisesRegex(laws.Broken, "group 3 was trained at age 1"):
            laws.check_journal(JOURNAL, narrow, 2)

    def test_versions_and_checkpoints(self):
        self.broken("version 2 was live before batch 1", self.replaced(live(1), live(2)))
        self.broken("version 1 was live after version 2", self.replaced(checkpoint(2), live(1), checkpoint(2)))
        self.broken("checkpoint 2 came before batch 1", self.replaced(live(1), checkpoint(2)))
        self.broken("checkpoints: ", JOURNAL[:-1])
        laws.check_journal(self.replaced(checkpoint(2), live(0), checkpoint(2)), SETTINGS, 2)  # a trainer began again

    def test_rows(self):
        for field, value, said in (("step", 0, "steps: "), ("version", 1, "versions: "), ("async/staleness_max", 3, "age 3")):
            rows = copy.deepcopy(ROWS)
            rows[1][field] = value
            with self.assertRaisesRegex(laws.Broken, said):
                laws.check_rows(rows, SETTINGS, 2)

    def test_calls(self):
        for answers, trees, said in ((ANSWERS, TREES + TREES[:1], "stored twice"),
                                     (ANSWERS + ANSWERS[:1], TREES, "one id"),
                                     (ANSWERS, TREES[1:], "1 of 4 received answers"),
                                     (ANSWERS[1:], TREES[1:], r"groups \[0\]")):
            with self.assertRaisesRegex(laws.Broken, said):
                laws.check_calls(answers, trees, BATCHES)


if __name__ == "__main__":
    unittest.main()
