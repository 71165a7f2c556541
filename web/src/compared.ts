// A table of the drawn runs' rewards and newest evaluations, as `ingot compare` prints them.
import { hash } from "./address";
import { Compared, Estimate } from "./api";
import { Child, h, link, number, table } from "./dom";

export function interval(estimate: Estimate | null): string {
  if (!estimate || estimate.values === 0) return "–";
  return estimate.values < 2 ? number(estimate.mean) : `${number(estimate.mean)} (${number(estimate.low)} to ${number(estimate.high)})`;
}

// `rows` is by run. The others are compared with the first run.
export function comparedTable(rows: [string, Compared][]): HTMLElement {
  const first = rows[0]?.[0] ?? "";
  const row = ([name, one]: [string, Compared]): Child[] => [
    link(hash("overview", {}, name), name), one.steps, interval(one.reward), one.version < 0 ? "–" : one.version,
    [interval(one.evaluation), one.no_interval ? h("span", { class: "soft" }, ` (no interval: ${one.no_interval})`) : null],
    one.evaluation && one.evaluation.values > 1 ? one.evaluation.values : "–", name === first ? "–" : interval(one.difference)];
  return table(rows.length < 2 ? "With 95% intervals" : `With 95% intervals. The differences from ${first} are paired by task; \`ingot compare\` prints the same table`,
    ["run", "#steps", "#reward, last ten steps", "#version", "#evaluation over tasks", "#tasks", "#difference"], rows.map(row));
}
