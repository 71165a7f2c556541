// Defines the window's cells and their legend. Pure.
import { WindowGroup, WindowState } from "./api";

export type CellKind = "open" | "straggler" | "finished" | "held" | "trained" | "dropped" | "failed";

interface KindRow { colour: string; mark: string; meaning: string; afterwards?: string }  // `afterwards`: meaning in a finished run

// All kinds of cells. The style sheet uses the same colors for class `cell KIND`.
export const kCellKinds: Record<CellKind, KindRow> = {
  open: { colour: "--open", mark: "", meaning: "open", afterwards: "open when the run ended" },
  straggler: { colour: "--wait", mark: "", meaning: "straggler: open for more than twice the median age", afterwards: "open when the run ended" },
  finished: { colour: "--good", mark: "✓", meaning: "finished, waits for a batch", afterwards: "finished, never trained" },
  held: { colour: "--soft", mark: "…", meaning: "trained, holds its slot until its version is live", afterwards: "trained" },
  trained: { colour: "--line", mark: "✓", meaning: "trained before older groups" },
  dropped: { colour: "--dropped", mark: "=", meaning: "dropped: all its rewards are equal" },
  failed: { colour: "--bad", mark: "×", meaning: "failed" },
};

export interface Cell { id: number; kind: CellKind; mark: string; text: string; inside: boolean }

function kindOf(group: WindowGroup, held: Set<number>, over: boolean): CellKind {
  if (group.state === "trained") return held.has(group.group) ? "held" : "trained";
  if (group.state === "open" && group.straggler && !over) return "straggler";
  return group.state in kCellKinds ? group.state as CellKind : "open";
}

// Returns the cells in admission order. `over` = the run is finished, so no more groups are batched.
export function cellsOf(state: WindowState, over: boolean): Cell[] {
  const held = new Set(state.unreleased);
  const shown = new Set(state.groups.map((group) => group.group));
  const older = state.unreleased.filter((id) => !shown.has(id)).map((id): Cell =>
    ({ id, kind: "held", mark: kCellKinds.held.mark, text: `group ${id}, ${meaningOf("held", over)}`, inside: false }));
  return [...older, ...state.groups.map((group): Cell => {
    const kind = kindOf(group, held, over), waits = group.state === "open" || group.state === "finished";
    const inside = waits && group.in_window && !over;
    const text = `group ${group.group}, ${meaningOf(kind, over)}` + (waits ? `, ${group.finished} of ${group.size} samples finished` : "") +
      (waits && !over ? inside ? ", in the window" : ", outside the window" : "");
    return { id: group.group, kind, mark: kCellKinds[kind].mark || `${group.finished}/${group.size}`, text, inside };
  })];
}

export function meaningOf(kind: CellKind, over: boolean): string {
  const row = kCellKinds[kind];
  return over ? row.afterwards ?? row.meaning : row.meaning;
}

// Returns the kinds of these cells in the order of the legend.
export function legendOf(cells: Cell[]): CellKind[] {
  const met = new Set(cells.map((cell) => cell.kind));
  return (Object.keys(kCellKinds) as CellKind[]).filter((kind) => met.has(kind));
}

// A dropped, failed, or released group holds no slot.
export function slotsUsed(cells: Cell[]): number {
  return cells.filter(({ kind }) => kind !== "dropped" && kind !== "failed" && kind !== "trained").length;
}
