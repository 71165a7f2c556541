// Shows the runs of a folder: a list with checkboxes and links, shared charts, the evaluations, and the keys that differ.
import { hash } from "./address";
import { Compared, IndexedRun, RunCurves, RunList, ask } from "./api";
import { Chart } from "./chart";
import { kColours } from "./chart_spec";
import { comparedTable } from "./compared";
import { Child, h, link, number, refresh, replace, table } from "./dom";
import { Axis, differingKeys, kAxes, overlay } from "./overlay";
import { RunOrder, clickedRun, kNewest, kRunColumns, listed } from "./run_order";
import { View } from "./view";

const kFirst = ["reward/mean", "eval/reward_mean"];

export class RunsView implements View {
  readonly title = "Runs";
  private readonly list = h("div", { class: "runs" }, h("p", { class: "soft" }, "Reading the runs."));
  private readonly evaluations = h("div");
  private readonly differences = h("div");
  private readonly wanted = h("input", { type: "search", placeholder: "part of a name", oninput: () => this.showList() });
  private readonly grid = h("div", { class: "charts large" });
  private readonly axis = h("select", { onchange: () => this.redraw() }, kAxes.map(([name, text]) => h("option", { value: name }, text)));
  private readonly metric = h("select", { onchange: () => this.redraw() });
  private readonly smoothing = h("input", { type: "range", min: 0, max: 0.95, step: 0.05, value: 0, oninput: () => this.show() });
  private readonly weight = h("output", {}, "0");
  private readonly off = new Set<string>();  // runs that the user unchecked
  private readonly on = new Set<string>();   // runs that the user checked
  private shown: RunList = { runs: [], names: [] };
  private curves: Record<string, RunCurves> = {};
  private charts: Chart[] = [];
  private key = "";
  private round = 0;  // counts requests for curves
  private order: RunOrder = { column: kNewest, descending: true };
  private comparedKey = "";  // identifies the runs in the evaluation table
  private readonly dark = matchMedia("(prefers-color-scheme: dark)");

  constructor(place: HTMLElement) {
    replace(place, h("h2", {}, "Runs"), h("form", { class: "filter", onsubmit: ((event: Event) => event.preventDefault()) as (event: never) => void }, h("label", {}, "runs with", this.wanted)), this.list,
      h("form", { class: "filter" }, h("label", {}, "horizontal axis", this.axis), h("label", {}, h("span", {}, "smoothing ", this.weight), this.smoothing), h("label", {}, "another metric", this.metric)),
      this.grid, this.evaluations, this.differences);
    this.list.addEventListener("change", (event) => this.check(event.target as HTMLInputElement));
    this.dark.addEventListener("change", this.recolour);
    window.addEventListener("resize", this.resize);
  }

  async update(): Promise<void> {
    this.shown = await ask<RunList>("runs");
    const chosen = this.chosen();
    this.showList();
    const metric = this.metric as HTMLSelectElement, further = metric.value;
    refresh(metric, h("option", { value: "" }, "none"), this.shown.names.filter((name) => !kFirst.includes(name)).map((name) => h("option", { value: name }, name)));
    metric.value = further;
    refresh(this.differences, this.keys(chosen));
    await this.fill();
    await this.compare(chosen);
  }

  private showList(): void {
    const { runs } = this.shown, chosen = this.chosen(), full = chosen.length >= kColours.length;
    const found = listed(runs, this.order, (this.wanted as HTMLInputElement).value);
    const choose = (column: number) => {
      this.order = clickedRun(this.order, column);
      this.showList();
    };
    const caption = `${found.length === runs.length ? `${runs.length} runs` : `${found.length} of ${runs.length} runs`}. At most ${kColours.length} are drawn`;
    refresh(this.list, table(caption, kRunColumns.map(([title]) => title), found.map((run) => [this.box(run, chosen.indexOf(run), full),
      link(hash("overview", {}, run.name), run.name), run.total_steps ? `${run.steps} / ${run.total_steps}` : run.steps, number(run.reward), number(run.evaluated),
      run.error ? h("span", { class: "error" }, run.error) : run.newest ? new Date(run.newest * 1000).toLocaleString() : "none yet"]), { ...this.order, choose }));
    for (const box of this.list.querySelectorAll("input")) box.checked = box.hasAttribute("checked");  // also after clicks
  }

  // Requests the evaluations again if the drawn runs or their newest figures have changed. The first drawn run is the reference.
  private async compare(chosen: IndexedRun[]): Promise<void> {
    const mine = this.round;
    const key = JSON.stringify(chosen.map((run) => [run.name, run.steps, run.reward, run.evaluated]));
    if (key === this.comparedKey) return;
    const rows = await Promise.all(chosen.map(async (run): Promise<[string, Compared]> => [run.name, await ask<Compared>("compared", { run: run.name, first: chosen[0].name })]));
    if (mine !== this.round) return;
    this.comparedKey = rows.every(([, one]) => one.settled) ? key : "";
    refresh(this.evaluations, rows.length ? [h("h2", {}, "Rewards and evaluations"), comparedTable(rows)] : null);
  }

  close(): void {
    this.dark.removeEventListener("change", this.recolour);
    window.removeEventListener("resize", this.resize);
    this.charts.forEach((chart) => chart.destroy());
  }

  // Returns the newest runs until the user chooses others.
  private chosen(): IndexedRun[] {
    const newest = [...this.shown.runs].sort((a, b) => (b.newest ?? 0) - (a.newest ?? 0)).filter((run) => !this.off.has(run.name));
    const wanted = new Set([...newest.filter((run) => this.on.has(run.name)), ...newest.filter((run) => !this.on.has(run.name))].slice(0, kColours.length));
    return this.shown.runs.filter((run) => wanted.has(run));
  }

  private box(run: IndexedRun, place: number, full: boolean): Child {
    return [h("input", { type: "checkbox", "data-run": run.name, "aria-label": `draw ${run.name}`, checked: place >= 0, disabled: full && place < 0 }), " ",
      h("span", { class: "swatch", "style.background": place < 0 ? "transparent" : kColours[place] })];
  }

  private check(box: HTMLInputElement): void {
    const name = box.dataset.run;
    if (name === undefined) return;
    (box.checked ? this.on : this.off).add(name);
    (box.checked ? this.off : this.on).delete(name);
    void this.update().catch(() => undefined);  // the next poll reports the error
  }

  private keys(chosen: IndexedRun[]): Child {
    const keys = differingKeys(this.shown.runs, chosen);
    return [h("h2", {}, "Configuration"), keys.length === 0 ? h("p", { class: "soft" }, "The drawn runs have the same configuration.") :
      table("Keys that differ between the drawn runs", ["key", ...chosen.map((run) => run.name)], keys.map(({ key, values }) => [h("code", {}, key), ...values.map((value) => h("code", { class: "value" }, value))]))];
  }

  private metrics(): string[] {
    const further = (this.metric as HTMLSelectElement).value;
    return [...kFirst.filter((name) => this.shown.names.includes(name)), ...(further ? [further] : [])];
  }

  // Requests the curves and draws them, unless the user has chosen other runs in the meantime.
  private async fill(): Promise<void> {
    const mine = ++this.round;
    const metrics = this.metrics(), chosen = this.chosen().map((run) => run.name);
    const axis = kAxes.find(([name]) => name === (this.axis as HTMLSelectElement).value) ?? kAxes[0];
    const key = JSON.stringify([metrics, chosen, axis]);
    const curves = await Promise.all(chosen.map((run) => ask<RunCurves>("curves", { run, names: metrics.join(","), points: 400 })));
    if (mine !== this.round) return;
    this.curves = Object.fromEntries(chosen.map((run, i) => [run, curves[i]]));
    if (key !== this.key) {
      this.key = key;
      this.charts.forEach((chart) => chart.destroy());
      this.charts = metrics.map((title) => new Chart({ title, names: chosen, opens: null, x: axis[0] === "step" ? undefined : axis[1] }, true));
      replace(this.grid, this.charts.map((chart) => chart.element));
    }
    this.show();
  }

  private redraw(): void {
    void this.fill().catch(() => undefined);  // the next poll reports the error
  }

  private show(): void {
    const axis = (this.axis as HTMLSelectElement).value as Axis, weight = Number((this.smoothing as HTMLInputElement).value);
    replace(this.weight, String(weight));
    this.charts.forEach((chart) => chart.update(overlay(this.curves, chart.spec.title, axis, weight)));
  }

  private readonly recolour = () => this.charts.forEach((chart) => chart.draw());
  private readonly resize = () => this.charts.forEach((chart) => chart.resize());
}
