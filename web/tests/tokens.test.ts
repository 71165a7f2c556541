// Tests the colors of a call's tokens.
import assert from "node:assert/strict";
import test from "node:test";
import { Path } from "../src/token_path";
import { scaleOf } from "../src/token_scale";

test("a scale ends where its name says", () => {
  const scale = scaleOf("10", new Float32Array());
  assert.deepEqual([0, -5, -10, -40, 0.1].map(scale.share), [0, 0.5, 1, 1, 0]);
  assert.equal(scale.legend[1].text, "log-prob −10 and below");
});

test("by quantile, tokens spread over the whole scale, however close they are", () => {
  const scale = scaleOf("quantiles", Float32Array.from([-0.3, NaN, -0.1, -0.2, -0.4, -0.5]));
  const shares = [-0.1, -0.2, -0.3, -0.4, -0.5].map((one) => scale.share(Math.fround(one)));
  assert.deepEqual(shares, [0, 0.25, 0.5, 0.75, 1]);
  assert.deepEqual(scale.legend.map((one) => one.text), ["most likely -0.10", "median -0.30", "least likely 10% from -0.50", "least likely -0.50"]);
});

test("by quantile, tokens that are alike have the color of the most likely one", () => {
  for (const values of [[], [-2], [-1, -1, -1]]) assert.equal(scaleOf("quantiles", Float32Array.from(values)).share(-1), 0, String(values));
});

test("tokens that earlier calls sampled are told from the call's own and from the prompt's", () => {
  const path = new Path({ text: ["a", "b", "c", "d"], id: [1, 2, 3, 4], logprob: [-0.5, -1], versions: [[7, 1, 0], [8, 1, 1]],
    runs: [{ count: 1, sampled: false, call: -1 }, { count: 1, sampled: true, call: 0 }, { count: 1, sampled: false, call: -1 }, { count: 1, sampled: true, call: 2 }] }, 2);
  assert.deepEqual([0, 1, 2, 3].map((at) => path.earlier(at)), [false, true, false, false]);
  assert.deepEqual(path.of(1), { id: 2, sampled: true, earlier: true, call: 0, logprob: -0.5, version: 7, mixed: false });
  assert.deepEqual(path.of(3), { id: 4, sampled: true, earlier: false, call: 2, logprob: -1, version: 8, mixed: true });
});

test("a token has the alternatives of its own run, also where other runs have none", () => {
  const path = new Path({ text: ["a", "b", "c", "d"], id: [1, 2, 3, 4], logprob: [-0.5, -1, -2], versions: [[7, 3, 0]],
    runs: [{ count: 1, sampled: true, call: 0 }, { count: 1, sampled: false, call: -1 }, { count: 2, sampled: true, call: 1, alternatives: 2 }],
    alternative: [3, 9, 8, 4], alternative_logprob: [-1, -3, -0.25, null], alternative_text: { 3: "c", 8: "x", 9: "" } }, 1);
  assert.deepEqual([path.alternatives(0), path.alternatives(1)], [[], []]);
  assert.deepEqual(path.alternatives(2), [{ id: 3, text: "c", logprob: -1 }, { id: 9, text: "", logprob: -3 }]);
  assert.deepEqual(path.alternatives(3).map((one) => [one.id, one.text, one.logprob]), [[8, "x", -0.25], [4, "", NaN]]);
});

test("a record without alternatives has none", () => {
  const path = new Path({ text: ["a"], id: [1], logprob: [-0.5], versions: [[7, 1, 0]], runs: [{ count: 1, sampled: true, call: 0 }] }, 0);
  assert.deepEqual(path.alternatives(0), []);
});
