// The window as a picture: from the head on, one cell for each group that holds a slot.
import { Run, WindowGroup, WindowState, ask } from "./api";
import { h, hash, link, refresh, seconds, swatch, table } from "./dom";
import { View } from "./view";

function describe(group: WindowGroup): string {
  return `group ${group.group}, ${group.straggler ? "straggler, " : ""}${group.state}, ${group.finished} of ${group.size} samples finished, ` +
    `age ${seconds(group.age_s)}${group.in_window ? ", in the window" : ", outside the window"}`;
}

function cell(group: WindowGroup): HTMLElement {
  const kind = group.straggler ? "straggler" : group.state;
  const text = describe(group);
  return h("a", { class: `cell ${kind} ${group.in_window ? "inside" : ""}`, href: hash("group", { group: group.group }), title: text,
    "aria-label": text }, group.state === "open" ? `${group.finished}/${group.size}` : "✓");
}

export class WindowView implements View {
  readonly title = "Window";
  readonly episodes = true;
  constructor(private readonly place: HTMLElement) {}

  async update(_: Run): Promise<void> {
    const state = await ask<WindowState>("window");
    const held = state.unreleased.map((group) =>
      h("a", { class: "cell held", href: hash("group", { group }), title: `group ${group}, trained; its slot waits for its version to be live`,
        "aria-label": `group ${group}, trained, holds its slot` }, "…"));
    const open = state.groups.filter((group) => group.state === "open");
    const used = state.groups.length + held.length;
    const range = state.window > state.budget ? "any finished group" : `finished groups of the ${state.window}`;
    refresh(this.place, h("h2", {}, "The window"),
      h("p", {}, `Head: group ${state.head}. A batch may take ${range} from there on. ${used} of ${state.budget} slots are used. ` +
        `Live version: ${state.live_version < 0 ? "none yet" : state.live_version}. So far ${state.trained} groups were trained, ${state.dropped} dropped, ${state.failed} failed.`),
      used ? h("div", { class: "cells", role: "list", "aria-label": "groups in the order of admission" },
        [...held, ...state.groups.map(cell)].map((one) => h("span", { role: "listitem" }, one))) :
        h("p", { class: "soft" }, "No group holds a slot: none is admitted yet, or all are trained."),
      h("p", { class: "legend" }, swatch("--open", "open"), swatch("--wait", "straggler: open for twice the median age"),
        swatch("--good", "finished, waits for a batch"), swatch("--soft", "trained, holds its slot"),
        h("span", {}, "framed: in the window")),
      table("Open groups, oldest first" + (state.median_age_s ? `. Median age of the last finished groups: ${seconds(state.median_age_s)}` : ""),
        ["group", "task", "#age", "#finished", "#running", "#version", "cause"],
        open.map((group) => [link(hash("group", { group: group.group }), group.group), group.task, seconds(group.age_s),
          `${group.finished} / ${group.size}`, group.running, group.version, (group.straggler ? "straggler: " : "") + group.cause])),
      h("h2", {}, "Running episodes"),
      table("Samples that run now, the oldest first", ["episode", "group", "#sample", "#attempt", "#age"],
        open.flatMap((group) => group.samples.filter((sample) => sample.state === "open").map((sample) => ({ group, sample })))
          .sort((a, b) => b.sample.age_s - a.sample.age_s).slice(0, 100)
          .map(({ group, sample }) => [link(hash("episode", { id: sample.id }), sample.id.slice(0, 12)), link(hash("group", { group: group.group }), group.group), sample.sample,
            sample.attempt, seconds(sample.age_s)])));
  }
}
