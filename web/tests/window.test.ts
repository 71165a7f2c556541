// Tests the window's cells: the text of each, and that the legend lists every color in use.
import assert from "node:assert/strict";
import fs from "node:fs";
import test from "node:test";
import { WindowGroup, WindowState } from "../src/api";
import { Cell, cellsOf, kCellKinds, legendOf, meaningOf, slotsUsed } from "../src/window_cells";

function group(id: number, state: string, rest: Partial<WindowGroup> = {}): WindowGroup {
  return { group: id, state, size: 8, finished: state === "open" ? 3 : 8, in_window: true, straggler: false, ...rest } as WindowGroup;
}

function cells(groups: WindowGroup[], unreleased: number[] = [], over = false): Cell[] {
  return cellsOf({ groups, unreleased } as unknown as WindowState, over);
}

test("a dropped group has a kind of its own, which the legend names", () => {
  const drawn = cells([group(4, "finished"), group(5, "dropped"), group(6, "open"), group(7, "failed")]);
  assert.deepEqual(drawn.map((cell) => cell.kind), ["finished", "dropped", "open", "failed"]);
  assert.deepEqual(legendOf(drawn), ["open", "finished", "dropped", "failed"]);
  assert.notEqual(kCellKinds.dropped.colour, kCellKinds.failed.colour);
  assert.match(meaningOf("dropped", false), /dropped/);
  assert.equal(new Set(Object.values(kCellKinds).map((row) => row.colour)).size, Object.keys(kCellKinds).length);
});

test("dropped, failed, and released groups hold no slot, and are not framed", () => {
  const drawn = cells([group(4, "finished"), group(5, "dropped"), group(6, "trained"), group(7, "trained"), group(8, "failed")], [2, 7]);
  assert.deepEqual(drawn.map((cell) => [cell.id, cell.kind]),
    [[2, "held"], [4, "finished"], [5, "dropped"], [6, "trained"], [7, "held"], [8, "failed"]]);
  assert.equal(slotsUsed(drawn), 3);
  assert.deepEqual(drawn.filter((cell) => cell.inside).map((cell) => cell.id), [4]);
});

test("nothing of a finished run waits", () => {
  const drawn = cells([group(4, "finished"), group(5, "open", { straggler: true })], [], true);
  assert.deepEqual(drawn.map((cell) => cell.kind), ["finished", "open"]);
  assert.ok(drawn.every((cell) => !/wait|straggler|window/.test(cell.text) && !cell.inside), JSON.stringify(drawn));
});

test("the style sheet draws each kind in the legend's color", () => {
  const css = fs.readFileSync("src/style.css", "utf8");
  for (const [kind, row] of Object.entries(kCellKinds)) assert.match(css, new RegExp(`\\.cell\\.${kind} \\{ background: var\\(${row.colour}\\);`), kind);
});
