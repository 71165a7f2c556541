// A section of charts. The first section of the page is always open and large. The others are collapsible. A closed one neither
// requests nor draws curves.
import { Curve } from "./api";
import { Chart } from "./chart";
import { count, h, replace } from "./dom";
import { Folds } from "./folds";
import { Section } from "./sections";

export class ChartSection {
  readonly element: HTMLElement;
  private readonly grid: HTMLElement;
  private charts: Chart[] = [];

  // `opened` is called when the user opens the section. The section then waits for `update`.
  constructor(private readonly section: Section, first: boolean, folds: Folds, opened: () => void) {
    this.grid = h("div", { class: first ? "charts large" : "charts" });
    const title = h("h2", {}, section.title);
    if (first) {
      this.element = h("section", {}, title, this.grid);
      this.make(true);
      return;
    }
    const element = h("details", { class: "section", open: folds.isOpen(section.title) },
      h("summary", {}, title, h("span", { class: "soft" }, ` ${count(section.charts.length, "chart")}`)), this.grid) as HTMLDetailsElement;
    element.addEventListener("toggle", () => {
      if (element.open === this.charts.length > 0) return;  // the section was created open
      folds.set(section.title, element.open);
      if (element.open) this.make(false);
      else this.close();
      if (element.open) opened();
    });
    this.element = element;
    if (element.open) this.make(false);
  }

  // The curves that `update` needs. Empty for a closed section.
  names(): string[] {
    return this.charts.flatMap((chart) => chart.spec.names);
  }

  // A chart whose curves were not requested does not change.
  update(curves: Record<string, Curve>): void {
    this.charts.filter((chart) => chart.spec.names.some((name) => name in curves)).forEach((chart) => chart.update(curves));
  }

  draw(): void {
    this.charts.forEach((chart) => chart.draw());
  }

  resize(): void {
    this.charts.forEach((chart) => chart.resize());
  }

  close(): void {
    this.charts.forEach((chart) => chart.destroy());
    this.charts = [];
    replace(this.grid);
  }

  private make(large: boolean): void {
    this.charts = this.section.charts.map((spec) => new Chart(spec, large));
    replace(this.grid, this.charts.map((chart) => chart.element));
  }
}
