// Tests the list of runs and the text of intervals.
import assert from "node:assert/strict";
import test from "node:test";
import { IndexedRun } from "../src/api";
import { interval } from "../src/compared";
import { clickedRun, kNewest, listed } from "../src/run_order";

const run = (name: string, newest: number | null, reward: number | null = null) => ({ name, newest, reward, steps: 1, evaluated: null }) as IndexedRun;
const kRuns = [run("a10", 5), run("a9", 7, 0.5), run("B", null, 0.25)];
const names = (runs: IndexedRun[]) => runs.map((one) => one.name).join();

test("runs are found by part of a name and sorted by any column, runs without a value last", () => {
  assert.equal(names(listed(kRuns, { column: kNewest, descending: true }, "")), "a9,a10,B");
  assert.equal(names(listed(kRuns, { column: 1, descending: false }, "A")), "a9,a10");
  assert.equal(names(listed(kRuns, { column: 3, descending: true }, "")), "a9,B,a10");
  assert.equal(names(kRuns), "a10,a9,B");
});

test("a click sorts, and another one reverses", () => {
  const byReward = clickedRun({ column: kNewest, descending: true }, 3);
  assert.deepEqual(byReward, { column: 3, descending: true });
  assert.deepEqual(clickedRun(byReward, 3), { column: 3, descending: false });
  assert.deepEqual(clickedRun(byReward, 1), { column: 1, descending: false });
  assert.deepEqual(clickedRun(byReward, 0), byReward);
});

test("an estimate has an interval from two values on", () => {
  assert.equal(interval(null), "–");
  assert.equal(interval({ mean: 0, low: 0, high: 0, values: 0 }), "–");
  assert.equal(interval({ mean: 0.5, low: 0.5, high: 0.5, values: 1 }), "0.5");
  assert.equal(interval({ mean: 0.5, low: 0.25, high: 0.75, values: 4 }), "0.5 (0.25 to 0.75)");
});
