// Sends requests to the page's server. All but one are polled GETs. WebSockets are not used because some proxies break them.
import { apiPath } from "./address";

export class Rejected extends Error {}

export async function ask<T>(path: string, parameters: Record<string, string | number | undefined> = {}): Promise<T> {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== "") query.set(key, String(value));
  }
  const text = query.toString();
  return read<T>(await fetch(`${apiPath(path)}${text ? "?" + text : ""}`, { credentials: "same-origin" }));
}

// Ends an episode without calls ("id=E") or all of them ("all=1"). Returns the number of ended episodes.
export async function end(wanted: string, key: string): Promise<number> {
  const headers = { Authorization: `Bearer ${key}` };
  return (await read<{ ended: number }>(await fetch(`/api/end_uncalled?${wanted}`, { method: "POST", credentials: "same-origin", headers }))).ended;
}

async function read<T>(response: Response): Promise<T> {
  if (response.status === 401) {
    throw new Rejected("this page's key is no longer valid: `ingot view RUN` prints a new link");
  }
  const body = (await response.text()) || "{}";
  let parsed: unknown;
  try {
    parsed = JSON.parse(body);
  } catch {
    throw new Error(body.slice(0, 300));
  }
  if (!response.ok) throw new Error((parsed as { error?: string }).error ?? `status ${response.status}`);
  return parsed as T;
}

export interface Row { step: number; time: number; values: Record<string, number> }
export interface Engine {
  name: string; error?: string; version: number; running: number; waiting: number; kv_used: number; kv_total: number;
  sampled_tokens: number; prompt_tokens: number; cached_prompt_tokens: number; idle_share: number; alive_seconds: number;
  prefill?: { requests: number; tokens: number; prefilled: number; oldest_seconds: number };
}
export interface Run {
  index?: boolean;  // true = a folder of runs; the other fields are only set for a run
  name: string; folder: string; live: boolean; rows: number; broken_rows: number; names: string[]; now: number;
  started?: number; batches?: number; live_version?: number; no_pool?: string; pool_error?: string;
  scheduler_error?: string; outdated?: string;
  facts: { supervised: boolean; total_steps: number; groups_per_step: number; group_size: number; max_staleness: number; budget: number;
    window: number; concurrency: number; scaffolds: string[] };
  last?: Row; evaluated?: Row; supervised?: Row; update_variance?: { step: number; value: number };
  efficiency?: { steps: number; value: number; low: number; high: number; tokens_per_second: number;
    reward_per_million: number };
  trainer?: string;
  engines?: Engine[];
  scheduler?: { next_step: number; finished: boolean; running_episodes: number; finished_episodes: number;
    admitted_unreleased: number; grading: number };
  agents_idle_share?: number;
  uncalled?: { count: number; oldest_s: number; episodes: { id: string; age_s: number; kind: string; group: number; sample: number; task: string }[] };
  can_end: boolean;
}
// A folder of runs (src/view/runs/run_index.h).
export interface KeyDifference { key: string; first: string; own: string }
export interface IndexedRun {
  name: string; total_steps: number; error: string; steps: number; newest: number | null; reward: number | null; evaluated: number | null;
  differences: KeyDifference[];
}
export interface Estimate { mean: number; low: number; high: number; values: number }  // values < 2 = no interval
export interface Compared {
  steps: number; reward: Estimate; version: number; evaluation: Estimate | null; no_interval: string; difference: Estimate | null;
  settled: boolean;  // false = the evaluation has just ended, and a later answer may have more tasks
}
export interface RunList { runs: IndexedRun[]; names: string[] }
export interface Progress { steps: number[]; seconds: number[]; tokens: number[] }
export interface RunCurves { curves: Record<string, Curve>; progress: Progress }
export interface Curve { steps: number[]; mean: (number | null)[]; low: (number | null)[]; high: (number | null)[] }
export interface Sample { sample: number; attempt: number; id: string; state: string; age_s: number; reward: number; cause: string }
export interface WindowGroup {
  group: number; task: string; domain: string; state: string; age_s: number; waits_s: number; in_window: boolean;
  version: number; size: number; finished: number; running: number; straggler: boolean; cause: string; samples: Sample[];
}
export interface WindowState {
  head: number; next_group: number; window: number; budget: number; live_version: number; median_age_s: number;
  dropped: number; failed: number; trained: number; unreleased: number[]; groups: WindowGroup[];
}
export interface Part { name: string; amount: number }
export interface Time {
  wall: number; measured: number; parts: Part[]; steps: number; wait_causes: Part[]; wait_explained: number;
  wait_steps: number; engine_idle: number; engine_total: number; tokens: Record<string, number>;
}
export interface Episode {
  id: string; kind: string; group: number; sample: number; attempt: number; state: string; reward: number; seconds: number;
  opened: number; task: string; domain: string; scaffold: string; cause: string; detail: string; version: number;
  pinned: number; isolation: string; trunk: string; signals: Record<string, number>;
  terms: { term: string; weight: number; value: number; detail: string }[];
}
export interface ToolCall { function?: { name?: string; arguments?: unknown } }
export interface Message { role?: string; content?: unknown; reasoning_content?: unknown; tool_calls?: ToolCall[] }
export interface Call {
  call: number; id: string; parent: number; branch: string; parent_branch: string; fork_cause: string;
  role: string;  // the player or other part in the episode that made the call; "" = not given by the client
  after_trunk: boolean; origin: "" | "summary" | "sub-agent"; origin_call: number; finish: string;
  model: string; trained: boolean; malformed: boolean; temperature: number; context_tokens: number; cached_tokens: number;
  sampled_tokens: number; started_s: number; queue_s: number; decode_s: number; ended_s: number; reward: number;
  advantage?: number; delivered: Message | null;
}
export interface TreeNode {
  parent: number; depth: number; tokens: number; sampled: boolean; text: string; ends: number[]; logprob?: number;
  first_version?: number; last_version?: number; kv_mixed?: boolean; calls?: number[];
}
export interface EpisodeTree extends Episode {
  payload?: string; facts: Record<string, string>; calls: Call[]; nodes: TreeNode[]; sampled_tokens: number;
  tree_tokens: number;
}
export interface Group {
  group: number; task: string; payload: string; state?: string; step?: number; reason?: string; episodes: EpisodeTree[];
}
export interface Tokens {
  text: string[]; id: number[]; runs: { count: number; sampled: boolean; call: number; alternatives?: number }[]; logprob: (number | null)[];
  versions: [number, number, number][];
  // Recorded alternatives, for the runs with `alternatives` per token, and each id's text. Absent = none recorded.
  alternative?: number[]; alternative_logprob?: (number | null)[]; alternative_text?: Record<string, string>;
}
