// Tests the page's addresses.
import assert from "node:assert/strict";
import test from "node:test";
import { apiPath, hash, parse, show } from "../src/address";

test("the addresses of one run's page name no run", () => {
  show("");
  assert.equal(hash("episodes", { kind: "eval", task: "" }), "#/episodes?kind=eval");
  assert.equal(apiPath("run"), "/api/run");
  const { run, view, query } = parse("#/step?step=3");
  assert.deepEqual([run, view, query.get("step")], ["", "step", "3"]);
  assert.equal(parse("").view, "overview");
});

test("in a folder, every address and request names its run, whatever its name is", () => {
  for (const name of ["smoke", "<img src=x onerror=alert(1)>", "a/b", "50%", "a b?c#d", "of", "ü"]) {
    show(name);
    const { run, view, query } = parse(hash("episode", { id: "x&y" }));
    assert.deepEqual([run, view, query.get("id")], [name, "episode", "x&y"]);
    assert.equal(decodeURIComponent(apiPath("run").split("/")[3]), name);
  }
  show("");
  assert.equal(hash("overview", {}, "one"), "#/of/one/overview");
});

test("an address that nobody made leads to the overview or to an unknown run, and never throws", () => {
  assert.equal(parse("#/of/%E0%A4%A/window").run, "");
  assert.deepEqual([parse("#/of/x").run, parse("#/of/x").view], ["x", "overview"]);
  assert.equal(parse("#/of").view, "of");
});
