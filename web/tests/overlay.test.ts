// Tests charts of several runs.
import assert from "node:assert/strict";
import test from "node:test";
import { IndexedRun, RunCurves } from "../src/api";
import { differingKeys, overlay, placeOf, smooth } from "../src/overlay";

const kProgress = { steps: [0, 2, 4], seconds: [10, 30, 90], tokens: [100, 300, 400] };

test("a step's place on an axis lies between those of its neighbors, and never outside the run", () => {
  assert.deepEqual([0, 1, 2, 3, 4, 7].map((step) => placeOf(step, kProgress, "seconds")), [10, 20, 30, 60, 90, 90]);
  assert.equal(placeOf(3, kProgress, "tokens"), 350);
  assert.equal(placeOf(3, kProgress, "step"), 3);
  assert.equal(placeOf(3, { steps: [], seconds: [], tokens: [] }, "tokens"), 3);
});

test("smoothing begins at the first value, and leaves gaps and constants alone", () => {
  assert.deepEqual(smooth([4, null, 0], 0), [4, null, 0]);
  const [first, gap, last] = smooth([4, null, 0], 0.5);
  assert.equal(first, 4);
  assert.equal(gap, null);
  assert.ok(Math.abs(last! - 4 / 3) < 1e-12, String(last));
  for (const value of smooth([3, 3, 3], 0.9)) assert.ok(Math.abs(value! - 3) < 1e-12);
});

test("a run without the metric has no curve", () => {
  const curve = { steps: [0, 4], mean: [1, 2], low: [], high: [] };
  const runs: Record<string, RunCurves> = { a: { curves: { r: curve }, progress: kProgress }, b: { curves: {}, progress: kProgress },
    c: { curves: { r: { ...curve, steps: [], mean: [] } }, progress: kProgress } };
  assert.deepEqual(overlay(runs, "r", "seconds", 0), { a: { steps: [10, 90], mean: [1, 2], low: [], high: [] } });
});

test("the keys that differ are those of the chosen runs, whichever of them is the folder's first", () => {
  const run = (name: string, ...differences: [string, string, string][]) =>
    ({ name, differences: differences.map(([key, first, own]) => ({ key, first, own })) }) as IndexedRun;
  const all = [run("a"), run("b", ["x", "1", "2"]), run("c", ["x", "1", "2"], ["y", "7", "8"])];
  assert.deepEqual(differingKeys(all, all), [{ key: "x", values: ["1", "2", "2"] }, { key: "y", values: ["7", "7", "8"] }]);
  assert.deepEqual(differingKeys(all, [all[1], all[2]]), [{ key: "y", values: ["7", "8"] }]);
  assert.deepEqual(differingKeys(all, [all[1]]), []);
});
