// The state of a run as shown on the page. Pure.
import { Run } from "./api";

// Returns true if the run has completed all its steps.
export function isFinished(run: Run): boolean {
  const { total_steps: total, supervised } = run.facts;
  return !supervised && total > 0 && run.last !== undefined && run.last.step + 1 >= total;
}

export function describeRun(run: Run): string {
  if (run.index) return "";
  if (isFinished(run)) return `finished · ${run.last!.step + 1} steps`;
  if (!run.live) return run.last ? `from the run's files · step ${run.last.step + 1} of ${run.facts.total_steps}` : "from the run's files";
  if (run.facts.supervised) return run.supervised ? `running · step ${run.supervised.step + 1}` : "running";
  if (run.scheduler?.finished) return "all batches are complete";
  return run.scheduler ? `running · step ${run.scheduler.next_step}` : "running";
}
