// Tests the filter of the configuration.
import assert from "node:assert/strict";
import test from "node:test";
import { linesWith } from "../src/yaml_lines";

const kYaml = "run:\n  name: demo\nmodel:\n  layers: 2\n  heads: 2\ntrainer:\n  adam:\n    beta: 0.9\n  Learning_rate: 1\n";

test("a found line stands below its keys, which are shown once", () => {
  assert.equal(linesWith(kYaml, "beta"), "trainer:\n  adam:\n    beta: 0.9");
  assert.equal(linesWith(kYaml, ": 2"), "model:\n  layers: 2\n  heads: 2");
  assert.equal(linesWith(kYaml, "LEARNING"), "trainer:\n  Learning_rate: 1");
});

test("no text finds everything, and an absent one nothing", () => {
  assert.equal(linesWith(kYaml, "  "), kYaml);
  assert.equal(linesWith(kYaml, "zzz"), 'No line has "zzz".');
});
