"""Episodes as `ingot inspect --json` prints them, and the tokens of their trees."""
import base64
import json
import os


class StoredTree:
    def __init__(self, text):
        tree = json.loads(text)
        self.episode, self.calls, self.segments = tree["episode"], tree.get("calls", []), tree.get("segments", {})

    def ids(self, keys):
        return [id for key in keys for id in self.segments[base64.b64decode(key).hex()]["tokenIds"]]

    def context(self, call):
        """All ids of the prompt, those of a parent call of the same episode included."""
        before = []
        if "continuedSegments" in call:
            parent = next(one for one in self.calls if one["callId"] == call["parentCallId"])
            before = self.context(parent) + self.ids(parent["sampledKeys"][:call["continuedSegments"]])
        return before + self.ids(call.get("contextKeys", []))

    def path(self, call):
        return self.context(call) + self.ids(call.get("sampledKeys", []))


def stored_groups(lines):
    """The trees of the newest attempts of training, by group and sample."""
    newest = {}
    for line in lines:
        tree = StoredTree(line)
        ref = tree.episode.get("ref", {})
        if "purpose" in tree.episode:
            continue
        samples, sample, attempt = newest.setdefault(int(ref.get("groupId", 0)), {}), ref.get("sampleIndex", 0), ref.get("attempt", 0)
        if attempt >= samples.get(sample, (0, None))[0]:
            samples[sample] = (attempt, tree)
    return {group: {sample: tree for sample, (_, tree) in samples.items()} for group, samples in newest.items()}


class Tokens:
    """Counts of the calls of trees: `unique` tokens of their trie, those that rollout `computed`, and those `common` to all."""

    def __init__(self, trees):
        nodes, common = set(), None
        self.calls = self.computed = 0
        for tree in trees:
            for call in tree.calls:
                path, node = tree.path(call), 0
                for id in path:  # a node of the trie is named by its path
                    node = hash((node, id))
                    nodes.add(node)
                common = path if common is None else os.path.commonprefix([common, path])
                self.computed += len(path) - call.get("cachedTokens", 0)
                self.calls += 1
        self.unique, self.common = len(nodes), len(common or [])
