// The columns, the order, and the filter of the list of runs. Pure.
import { IndexedRun } from "./api";

export const kRunColumns: [string, (run: IndexedRun) => string | number][] = [
  ["drawn", () => 0], ["run", (run) => run.name], ["#steps", (run) => run.steps], ["#reward", (run) => run.reward ?? -Infinity],
  ["#held-out reward", (run) => run.evaluated ?? -Infinity], ["newest step", (run) => run.newest ?? 0]];
export const kNewest = 5;

export interface RunOrder { column: number; descending: boolean }

// Returns the order after a click on a column. Names start with the first, and other columns with the largest value. Another click
// reverses it. The first column has no order.
export function clickedRun(order: RunOrder, column: number): RunOrder {
  if (column === 0) return order;
  return column === order.column ? { column, descending: !order.descending } : { column, descending: column > 1 };
}

// Returns the runs whose names contain `wanted`, ignoring case, in this order. Equal runs keep the server's order.
export function listed(runs: IndexedRun[], { column, descending }: RunOrder, wanted: string): IndexedRun[] {
  const value = kRunColumns[column][1], sign = descending ? -1 : 1;
  return runs.filter((run) => run.name.toLowerCase().includes(wanted.toLowerCase())).sort((a, b) => {
    const x = value(a), y = value(b);
    if (typeof x === "string" || typeof y === "string") return sign * String(x).localeCompare(String(y), "en", { numeric: true });
    return x === y ? 0 : sign * (x < y ? -1 : 1);
  });
}
