"""The laws that a run under faults must keep, checked on its files alone: a naive model of the window, which shares no code
with the scheduler. Each function raises Broken at the first law that does not hold."""
import math


class Broken(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Broken(message)


class Settings:
    """P groups per step, staleness S, a share F of the budget as the window, a checkpoint every C steps."""

    def __init__(self, groups_per_step, staleness, fraction, checkpoint_every):
        self.groups_per_step, self.checkpoint_every = groups_per_step, checkpoint_every
        self.window = max(1, math.floor(fraction * (staleness + 1) * groups_per_step))
        self.age = staleness + math.ceil((self.window - 1) / groups_per_step)


def check_journal(journal, settings, steps):
    """Batches, window, ages, live versions and checkpoints of the journal; returns the groups of each batch."""
    state, admitted_at, live, batches, head, checkpoints = {}, {}, 0, [], 0, []
    for record in journal:
        if "admitted" in record:
            group = int(record["admitted"].get("groupId", 0))
            check(group == len(state), f"group {group} was admitted as number {len(state)}")
            state[group] = "open"
            admitted_at[group] = int(record["admitted"].get("admittedVersion", 0))
        elif "rewarded" in record:
            group = int(record["rewarded"].get("groupId", 0))
            check(state[group] == "open", f"group {group} was rewarded when it was {state[group]}")
            state[group] = "rewarded"
        elif "closed" in record:
            group = int(record["closed"].get("groupId", 0))
            check(state[group] == "open", f"group {group} was closed when it was {state[group]}")
            state[group] = "closed"
        elif "batch" in record:
            step = int(record["batch"].get("step", 0))
            check(step == len(batches), f"batch {step} stands where batch {len(batches)} should")
            groups = [int(group) for group in record["batch"]["groupIds"]]
            check(len(groups) == settings.groups_per_step and groups == sorted(set(groups)), f"batch {step}: {groups}")
            for group in groups:
                while state.get(head) in ("trained", "closed"):
                    head += 1
                check(state[group] == "rewarded", f"batch {step} holds group {group}, which is {state[group]}")
                # Groups that the window took before this batch, and left for a later one, have moved its head.
                taken, edge = {other for other in state if state[other] == "rewarded"}, head
                while state.get(edge) in ("trained", "closed") or edge in taken:
                    edge += 1
                check(group < edge + settings.window, f"batch {step} holds group {group}, beyond the window at {edge}")
                state[group] = "trained"
                age = step - admitted_at[group]
                check(age <= settings.age, f"group {group} was trained at age {age}")
            batches.append(groups)
        elif "live" in record:
            version = int(record["live"].get("version", 0))
            check(version <= len(batches), f"version {version} was live before batch {version - 1}")
            saved = version % settings.checkpoint_every == 0  # where a trainer begins that was started again
            check(version > live or saved, f"version {version} was live after version {live}")
            live = version
        elif "checkpoint" in record:
            step = int(record["checkpoint"].get("step", 0))
            check(step <= len(batches), f"checkpoint {step} came before batch {step - 1}")
            checkpoints.append(step)
    check(len(batches) == steps, f"{len(batches)} batches of {steps}")
    check(checkpoints and checkpoints[-1] == steps, f"checkpoints: {checkpoints}")
    return batches


def check_rows(rows, settings, steps):
    """Each step is told once, with rising versions and no token older than the settings allow."""
    trained = [row for row in rows if "actor/loss" in row]
    check([row["step"] for row in trained] == list(range(steps)), f"steps: {[row['step'] for row in trained]}")
    versions = [row["version"] for row in trained]
    check(versions == sorted(set(versions)), f"versions: {versions}")
    oldest = max(row["async/staleness_max"] for row in trained)
    check(oldest <= settings.age, f"a token was trained at age {oldest}")


def check_calls(answers, trees, batches):
    """Each answer that an agent received is one stored call, and each group of a batch has an episode that finished.
    Returns the number of stored calls."""
    calls = [call["callId"] for tree in trees for call in tree.get("calls", [])]
    check(len(calls) == len(set(calls)), "a call is stored twice")
    check(len(answers) == len(set(answers)), "two answers have one id")
    missing = {answer.removeprefix("chatcmpl-") for answer in answers} - set(calls)
    check(not missing, f"{len(missing)} of {len(answers)} received answers are not stored, such as {sorted(missing)[:3]}")
    finished = {int(tree["episode"].get("ref", {}).get("groupId", 0)) for tree in trees
                if tree["episode"]["state"] == "EPISODE_FINISHED"}
    untold = sorted({group for groups in batches for group in groups} - finished)
    check(not untold, f"no episode of the trained groups {untold} finished")
    return len(calls)


def check_rewards(rewards, trees):
    """Each reward that was acknowledged, by episode, is the stored one."""
    stored = {tree["episode"]["episodeId"]: tree["episode"].get("reward") for tree in trees}
    for episode, reward in rewards.items():
        check(episode in stored, f"episode {episode}, whose reward was acknowledged, is not stored")
        check(stored[episode] == reward, f"episode {episode} has reward {stored[episode]}, and {reward} was acknowledged")
