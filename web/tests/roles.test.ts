// Tests the roles in an episode.
import assert from "node:assert/strict";
import test from "node:test";
import { Call, EpisodeTree } from "../src/api";
import { rolesOf } from "../src/roles";

const episode = (reward: number, calls: [string, number, boolean][]) =>
  ({ reward, calls: calls.map(([role, earned, trained]) => ({ role, reward: earned, trained })) }) as unknown as EpisodeTree;

test("each role of a game has its own reward, in the order of the first calls", () => {
  assert.deepEqual(rolesOf(episode(0, [["white", 0, true], ["black", -1, true], ["white", 1, true]])), [
    { role: "white", calls: 2, trained: 2, reward: 1 }, { role: "black", calls: 1, trained: 1, reward: -1 }]);
});

test("the episode's own reward counts for every role, and for calls without one", () => {
  assert.deepEqual(rolesOf(episode(2.5, [["", 0, true], ["solver", 0.5, true], ["start", 0, false]])), [
    { role: "", calls: 1, trained: 1, reward: 2 }, { role: "solver", calls: 1, trained: 1, reward: 2.5 }, { role: "start", calls: 1, trained: 0, reward: 2 }]);
});

test("an episode without roles has none", () => {
  assert.deepEqual(rolesOf(episode(1, [["", 1, true]])), []);
});
