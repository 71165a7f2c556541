// Draws the window, starting at its head: one cell per group, with the group's state.
import { hash } from "./address";
import { Run, WindowGroup, WindowState, ask } from "./api";
import { Child, h, link, refresh, seconds, swatch, table } from "./dom";
import { isFinished } from "./run_state";
import { View } from "./view";
import { Cell, cellsOf, kCellKinds, legendOf, meaningOf, slotsUsed } from "./window_cells";

function drawn(cell: Cell): HTMLElement {
  return h("span", { role: "listitem" }, h("a", { class: `cell ${cell.kind} ${cell.inside ? "inside" : ""}`, href: hash("group", { group: cell.id }),
    title: cell.text, "aria-label": cell.text }, cell.mark));
}

function legend(cells: Cell[], over: boolean): HTMLElement {
  return h("p", { class: "legend" }, legendOf(cells).map((kind) => swatch(kCellKinds[kind].colour, meaningOf(kind, over))),
    cells.some((cell) => cell.inside) ? h("span", {}, "framed: in the window") : null);
}

function summary(state: WindowState, cells: Cell[], over: boolean): string {
  const counts = `${state.trained} groups were trained, ${state.dropped} dropped, ${state.failed} failed.`;
  if (over) return `The run is finished: there will be no more batches. ${counts}`;
  const range = state.window > state.budget ? "any finished group" : `finished groups of the ${state.window}`;
  return `Head: group ${state.head}. A batch may take ${range} from there on. ${slotsUsed(cells)} of ${state.budget} slots are used. ` +
    `Live version: ${state.live_version < 0 ? "none yet" : state.live_version}. So far ${counts}`;
}

function openGroups(open: WindowGroup[], median: number, over: boolean): Child {
  const group = (one: WindowGroup) => [link(hash("group", { group: one.group }), one.group), one.task];
  if (over) {
    return open.length === 0 ? null : table("Groups that were open when the run ended", ["group", "task", "#finished", "#version"],
      open.map((one) => [...group(one), `${one.finished} / ${one.size}`, one.version]));
  }
  return table("Open groups, oldest first" + (median ? `. Median age of the last finished groups: ${seconds(median)}` : ""),
    ["group", "task", "#age", "#finished", "#running", "#version", "cause"],
    open.map((one) => [...group(one), seconds(one.age_s), `${one.finished} / ${one.size}`, one.running, one.version,
      (one.straggler ? "straggler: " : "") + one.cause]));
}

function runningEpisodes(open: WindowGroup[]): Child {
  return [h("h2", {}, "Running episodes"),
    table("Running samples, oldest first", ["episode", "group", "#sample", "#attempt", "#age"],
      open.flatMap((group) => group.samples.filter((sample) => sample.state === "open").map((sample) => ({ group, sample })))
        .sort((a, b) => b.sample.age_s - a.sample.age_s).slice(0, 100)
        .map(({ group, sample }) => [link(hash("episode", { id: sample.id }), sample.id.slice(0, 12)), link(hash("group", { group: group.group }), group.group), sample.sample,
          sample.attempt, seconds(sample.age_s)]))];
}

export class WindowView implements View {
  readonly title = "Window";
  readonly episodes = true;
  constructor(private readonly place: HTMLElement) {}

  async update(run: Run): Promise<void> {
    const state = await ask<WindowState>("window");
    const over = isFinished(run);
    const cells = cellsOf(state, over);
    const open = state.groups.filter((group) => group.state === "open");
    refresh(this.place, h("h2", {}, "The window"), h("p", {}, summary(state, cells, over)),
      cells.length ? h("div", { class: "cells", role: "list", "aria-label": "groups in admission order" }, cells.map(drawn)) :
        over ? null : h("p", { class: "soft" }, "No group holds a slot: none has been admitted yet, or all are trained."),
      legend(cells, over), openGroups(open, state.median_age_s, over), over ? null : runningEpisodes(open));
  }
}
