// Tests what happened to the sampled tokens.
import assert from "node:assert/strict";
import test from "node:test";
import { tokenParts } from "../src/token_parts";

const kTokens = { sampled: 100, trained: 40, stale: 5, dropped: 20, dropped_groups: 6, dropped_groups_counted: 6, dropped_groups_deleted: 0 };

function rest(tokens: Partial<typeof kTokens>) {
  return tokenParts({ ...kTokens, ...tokens }).at(-1)!;
}

test("once every dropped group is counted, the remainder is of evaluations and the like", () => {
  assert.deepEqual(rest({}), { name: "evaluation, probes, failed attempts, in progress", amount: 35 });
});

test("the remainder says that dropped groups are still in it", () => {
  assert.match(rest({ dropped_groups_counted: 2 }).name, /^not separable: 4 dropped or failed groups not counted yet, and /);
  assert.match(rest({ dropped_groups_counted: 3, dropped_groups_deleted: 1 }).name, /2 dropped or failed groups not counted yet, 1 dropped or failed group with deleted trees/);
  assert.match(rest({ dropped_groups_counted: 5, dropped_groups_deleted: 1 }).name, /^not separable: 1 dropped or failed group with deleted trees, /);
});

test("tokens of steps that the record has not yet are no negative remainder", () => {
  assert.equal(rest({ sampled: 60 }).amount, 0);
});
