// Computes charts of several runs: smoothed curves over steps, time, or tokens, and the keys that differ. Pure.
import { Curve, IndexedRun, Progress, RunCurves } from "./api";

export type Axis = "step" | "seconds" | "tokens";
export const kAxes: [Axis, string][] = [["step", "step"], ["seconds", "time, s"], ["tokens", "trained tokens"]];

// Returns the position of `step` on the axis, interpolated between neighboring steps. A step out of range gets the position of
// the nearest one.
export function placeOf(step: number, progress: Progress, axis: Axis): number {
  if (axis === "step") return step;
  const { steps } = progress, places = progress[axis];
  if (steps.length === 0) return step;
  let next = steps.findIndex((one) => one >= step);
  if (next < 0) next = steps.length - 1;
  if (next === 0 || steps[next] <= step) return places[next];
  const share = (step - steps[next - 1]) / (steps[next] - steps[next - 1]);
  return places[next - 1] + share * (places[next] - places[next - 1]);
}

// Returns a bias-corrected exponential moving average. A `weight` of 0 changes nothing. Gaps remain gaps.
export function smooth(values: (number | null)[], weight: number): (number | null)[] {
  let sum = 0, norm = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = weight * sum + (1 - weight) * value;
    norm = weight * norm + (1 - weight);
    return norm > 0 ? sum / norm : value;
  });
}

// Returns one metric of the chosen runs, by run.
export function overlay(runs: Record<string, RunCurves>, metric: string, axis: Axis, weight: number): Record<string, Curve> {
  const curves: Record<string, Curve> = {};
  for (const [name, run] of Object.entries(runs)) {
    const curve = run.curves[metric];
    if (!curve || curve.steps.length === 0) continue;
    curves[name] = { steps: curve.steps.map((step) => placeOf(step, run.progress, axis)), mean: smooth(curve.mean, weight), low: [], high: [] };
  }
  return curves;
}

// Returns the keys whose values differ between the chosen runs, with a value for each run. `all` has every run in the folder. The
// server compares each run with the first one, so a run without an entry has the first one's value.
export function differingKeys(all: IndexedRun[], chosen: IndexedRun[]): { key: string; values: string[] }[] {
  const first = new Map(all.flatMap((run) => run.differences.map((one): [string, string] => [one.key, one.first])));
  return [...first.keys()].sort()
    .map((key) => ({ key, values: chosen.map((run) => run.differences.find((one) => one.key === key)?.own ?? first.get(key)!) }))
    .filter(({ values }) => new Set(values).size > 1);
}
