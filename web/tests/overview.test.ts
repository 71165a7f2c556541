// Tests the overview: chart sections, which of them are open, and the words for a run's state.
import assert from "node:assert/strict";
import test from "node:test";
import { Run } from "../src/api";
import { Folds } from "../src/folds";
import { describeRun } from "../src/run_state";
import { sectionsFor } from "../src/sections";

function run(facts: Partial<Run["facts"]>, rest: Partial<Run> = {}): Run {
  return { live: false, facts: { supervised: false, total_steps: 40, ...facts }, ...rest } as Run;
}

function last(step: number): Run["last"] {
  return { step, time: 0, values: {} };
}

test("reward and evaluation come first, and a section without charts is left out", () => {
  const sections = sectionsFor(["actor/entropy", "async/staleness_mean", "eval/reward_mean", "reward/mean", "reward/term/outcome"]);
  assert.deepEqual(sections.map((section) => section.title), ["Reward and evaluation", "Rewards by term and domain", "Trainer", "Scheduler"]);
  assert.deepEqual(sections[0].charts.map((chart) => chart.title), ["Reward", "Evaluation on held-out tasks"]);
});

test("the roles of self-play are curves of one chart, next to the reward", () => {
  const [first] = sectionsFor(["reward/mean", "reward/batch_mean@role:black", "reward/batch_mean@role:white"]);
  assert.deepEqual(first.charts.map((chart) => chart.title), ["Reward", "Reward by role"]);
  assert.deepEqual(first.charts[1].labels, ["black", "white"]);
});

test("a run with only supervised stages begins with its loss", () => {
  assert.deepEqual(sectionsFor(["sft/loss", "sft/grad_norm"]).map((section) => section.charts[0].title), ["Supervised loss"]);
});

test("each curve is in one chart, with its own color", () => {
  const names = Array.from({ length: 19 }, (_, i) => `reward/term/t${i}`);
  const charts = sectionsFor(names).flatMap((section) => section.charts);
  assert.deepEqual(charts.flatMap((chart) => chart.names), names);
  assert.ok(charts.every((chart) => chart.names.length <= 8));
});

test("open sections are remembered, also beside a damaged or full store", () => {
  const kept = new Map<string, string>();
  const store = { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => void kept.set(key, value) };
  new Folds(store).set("Trainer", true);
  assert.ok(new Folds(store).isOpen("Trainer"));
  new Folds(store).set("Trainer", false);
  assert.ok(!new Folds(store).isOpen("Trainer"));
  for (const damaged of ["{", "7", "[1, null]"]) assert.ok(!new Folds({ ...store, getItem: () => damaged }).isOpen("Trainer"));
  const full = new Folds({ getItem: () => null, setItem: () => { throw new Error("full"); } });
  full.set("Rollout", true);
  assert.ok(full.isOpen("Rollout"));
});

test("a run that made all its steps is finished, live or from its files", () => {
  assert.equal(describeRun(run({}, { last: last(39) })), "finished · 40 steps");
  assert.equal(describeRun(run({}, { live: true, last: last(39) })), "finished · 40 steps");
  assert.equal(describeRun(run({}, { last: last(11) })), "from the run's files · step 12 of 40");
  assert.equal(describeRun(run({ total_steps: 0 }, { live: true, last: last(11) })), "running");
  assert.equal(describeRun(run({ supervised: true, total_steps: 0 })), "from the run's files");
});
