// A chart of several curves over the steps, drawn with uPlot. A click on a point, or Enter on the focused chart, opens the groups
// of that step. The arrow keys move between steps. A single step is shown as values without axes.
import uPlot from "uplot";
import { hash } from "./address";
import { Curve } from "./api";
import { ChartSpec, kColours } from "./chart_spec";
import { h, link, number, replace, swatch } from "./dom";

const kHeight = 210, kLargeHeight = 320;  // pixels
const kWholeSteps = Array.from({ length: 15 }, (_, power) => power).flatMap((power) => [1, 2, 5].map((first) => first * 10 ** power));

function css(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// Puts the curves on a common step axis, with null where a curve has no point.
function aligned(curves: Curve[]): uPlot.AlignedData {
  const steps = [...new Set(curves.flatMap((curve) => curve.steps))].sort((a, b) => a - b);
  const place = new Map(steps.map((step, i) => [step, i]));
  const columns = curves.map((curve) => {
    const column: (number | null)[] = new Array(steps.length).fill(null);
    curve.steps.forEach((step, i) => (column[place.get(step)!] = curve.mean[i]));
    return column;
  });
  return [steps, ...columns] as uPlot.AlignedData;
}

// Returns the value axis's range. A constant curve gets a range around its value.
function valueRange(_: uPlot, low: number | null, high: number | null): uPlot.Range.MinMax {
  if (low === null || high === null) return [0, 1];
  if (low < high) return uPlot.rangeNum(low, high, 0.1, true);
  return low === 0 ? [0, 1] : [low - Math.abs(low) / 2, low + Math.abs(low) / 2];
}

// Returns labels for ticks that are `step` apart, with enough digits to tell them apart.
function tickLabels(ticks: number[], step: number): string[] {
  let digits = 0;
  for (let scaled = step; digits < 9 && Math.abs(scaled - Math.round(scaled)) > 1e-6 * scaled; scaled *= 10) ++digits;
  const largest = Math.max(...ticks.map(Math.abs));
  return ticks.map((tick) => digits > 5 && largest < 1e-3 ? (tick === 0 ? "0" : tick.toExponential(1)) : largest >= 10000 ? number(tick) : tick.toFixed(digits));
}

function axisWidth(_: uPlot, labels: string[] | null): number {
  return 22 + 7 * Math.max(4, ...(labels ?? []).map((label) => label.length));
}

export class Chart {
  readonly element: HTMLElement;
  private readonly place: HTMLElement;
  private plot: uPlot | null = null;
  private data: uPlot.AlignedData = [[]];
  private at = -1;
  private readonly told = h("p", { class: "unseen", role: "status" });  // the values at the step selected with the arrow keys

  private readonly labels: string[];
  private readonly height: number;

  constructor(readonly spec: ChartSpec, large = false) {
    this.labels = spec.labels ?? spec.names;
    this.height = large ? kLargeHeight : kHeight;
    this.place = h("div", { class: "plot" });
    this.element = h("div", { class: "chart", role: "group", tabindex: 0, "aria-label": spec.title,
      onkeydown: ((event: KeyboardEvent) => this.key(event)) as (event: never) => void }, h("h3", {}, spec.title),
      spec.about ? h("p", { class: "about" }, spec.about) : null, this.place, this.told);
  }

  update(curves: Record<string, Curve>): void {
    const own = this.spec.names.map((name) => curves[name] ?? { steps: [], mean: [], low: [], high: [] });
    this.data = aligned(own);
    const last = own.map((curve, i) => `${this.labels[i]} ${number(curve.mean[curve.mean.length - 1])}`);
    this.element.setAttribute("aria-label", `${this.spec.title}: ${last.join(", ")}; arrow keys move, Enter opens the groups`);
    if (this.plot && this.data[0].length > 1) this.plot.setData(this.data);
    else this.draw();
  }

  draw(): void {
    this.plot?.destroy();
    this.plot = null;
    if (this.data[0].length < 2) return this.single();
    replace(this.place);
    this.place.style.minHeight = `${this.height}px`;
    const soft = css("--soft"), line = css("--line");
    const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    this.plot = new uPlot({
      width: Math.max(this.place.clientWidth, 200), height: this.height, legend: { live: true },
      scales: { x: { time: false }, y: { range: valueRange } },
      cursor: { points: { size: 7 } },
      axes: [{ ...axis, incrs: kWholeSteps, values: (_, ticks) => ticks.map((tick) => this.nameOf(tick)) }, { ...axis, size: axisWidth, values: (_, ticks, __, ___, step) => tickLabels(ticks, step) }],
      series: [{ label: this.spec.x ?? "step", value: (_, value, __, at) => this.nameOf(at === null ? this.data[0][this.data[0].length - 1] : value) }, ...this.labels.map((name, i) => ({
        label: name, stroke: kColours[i % kColours.length], width: 1.5, spanGaps: true,
        points: { show: this.data[0].length < 40, size: 5 },
        value: (_: uPlot, value: number | null, __: number, at: number | null) => number(at === null ? this.newest(i + 1) : value),
      }))],
    }, this.data, this.place);
    this.plot.over.addEventListener("click", () => this.open(this.plot!.cursor.idx ?? -1));
    this.plot.over.style.cursor = this.spec.opens ? "pointer" : "";
  }

  resize(): void {
    this.plot?.setSize({ width: Math.max(this.place.clientWidth, 200), height: this.height });
  }

  destroy(): void {
    this.plot?.destroy();
  }

  // Shows the values of the only step, or that there is none yet.
  private single(): void {
    const step = this.data[0][0];
    this.place.style.minHeight = "0";
    if (step === undefined) return replace(this.place, h("p", { class: "soft" }, "No value yet."));
    const address = this.addressOf(step);
    const place = `${this.spec.opens === "eval" ? "version" : this.spec.x ?? "step"} ${this.nameOf(step)}`;
    replace(this.place, h("p", { class: "soft" }, "One value, at ", address ? link(address, place) : place, ":"),
      h("ul", { class: "single" }, this.labels.map((label, i) => h("li", {}, swatch(kColours[i % kColours.length], `${label} `), h("b", {}, number(this.data[i + 1][0]))))));
  }

  private nameOf(x: number | null | undefined): string {
    return this.spec.x ? number(x) : String(x ?? "–");
  }

  private addressOf(step: number): string | null {
    if (!this.spec.opens) return null;
    return this.spec.opens === "step" ? hash("step", { step }) : hash("episodes", { kind: "eval", version: step });
  }

  // Returns a column's last value, which the legend shows while the pointer is elsewhere.
  private newest(column: number): number | null {
    return (this.data[column] as (number | null)[]).reduceRight<number | null>((found, value) => found ?? value, null);
  }

  private open(index: number): void {
    const step = this.data[0][index];
    const address = step === undefined ? null : this.addressOf(step);
    if (address) location.hash = address;
  }

  private key(event: KeyboardEvent): void {
    const count = this.data[0].length;
    if (!this.plot || count === 0) return;
    if (event.key === "Enter") this.open(this.at < 0 ? count - 1 : this.at);
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    const from = this.at < 0 ? count - 1 : this.at;
    this.at = Math.min(count - 1, Math.max(0, from + (event.key === "ArrowLeft" ? -1 : 1)));
    replace(this.told, `${this.spec.x ?? "step"} ${this.data[0][this.at]}: `, this.labels.map((name, i) => `${name} ${number(this.data[i + 1][this.at])} `));
    this.plot.setCursor({ left: this.plot.valToPos(this.data[0][this.at], "x"), top: 20 });
  }
}
