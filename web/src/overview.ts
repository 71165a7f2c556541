// The first view: progress, efficiency, roles and curves.
import { Curve, Row, Run, ask } from "./api";
import { Chart, ChartSpec, kColours } from "./chart";
import { Child, h, hash, link, number, percent, refresh, replace, seconds, table } from "./dom";
import { Uncalled } from "./uncalled";
import { View } from "./view";

const kPoints = 400;
const kAtATime = 60;  // curves of one question
const kMostAlike = 64;  // curves of one kind that is not a reward term, such as domains

// The charts for the metrics that the record has.
export function chartsFor(names: string[]): ChartSpec[] {
  const has = new Set(names);
  const like = (prefix: string, wanted: (rest: string) => boolean = () => true) =>
    names.filter((name) => name.startsWith(prefix) && wanted(name.slice(prefix.length)));
  const chart = (title: string, wanted: string[], opens: ChartSpec["opens"] = "step"): ChartSpec =>
    ({ title, names: wanted.filter((name) => has.has(name)), opens });
  // All curves whose names begin with `prefix`, in as many charts as needed to give each curve its own color.
  const every = (title: string, prefix: string, found: string[], opens: ChartSpec["opens"] = "step", most = Infinity): ChartSpec[] => {
    const shown = found.slice(0, most), charts: ChartSpec[] = [];
    for (let i = 0; i < shown.length; i += kColours.length) {
      const some = shown.slice(i, i + kColours.length);
      const part = shown.length > kColours.length ? `, ${i + 1} to ${i + some.length} of ${found.length}` : "";
      charts.push({ title: title + part, names: some, labels: some.map((name) => name.slice(prefix.length)), opens });
    }
    return charts;
  };
  const whole = (rest: string) => !/[/@]/.test(rest);  // neither a measure of a term nor a part of the episodes
  return [
    chart("Reward", ["reward/mean", "reward/batch_mean"]),
    ...every("Reward by term, before weights", "reward/term/", like("reward/term/", whole)),
    chart("Evaluation on held-out tasks", ["eval/reward_mean", "eval/graded_mean"], "eval"),
    ...every("Evaluation by reward term, before weights", "eval/term/", like("eval/term/"), "eval"),
    ...every("Evaluation, pass@k", "eval/", like("eval/pass@", (rest) => !rest.includes("@")), "eval"),
    ...every("Evaluation by set", "eval/reward_mean@set:", like("eval/reward_mean@set:"), "eval", kMostAlike),
    ...every("Evaluation by domain", "eval/reward_mean@domain:", like("eval/reward_mean@domain:"), "eval", kMostAlike),
    ...every("Reward by domain", "reward/batch_mean@domain:", like("reward/batch_mean@domain:"), "step", kMostAlike),
    ...every("Measures of reward terms", "reward/term/", like("reward/term/", (rest) => rest.includes("/") && !rest.includes("@")), "step", kMostAlike),
    ...every("Signals", "signal/", like("signal/", (rest) => !rest.includes("@")), "step", kMostAlike),
    chart("Entropy, nats", ["actor/entropy"]),
    chart("Clipped tokens, share", ["actor/clipfrac_low", "actor/clipfrac_high"]),
    chart("Importance ratio", ["cispo/ratio_mean", "cispo/ratio_max"]),
    chart("Gradient norm", ["actor/grad_norm"]),
    chart("Variance of the update", ["trainer/update_variance"]),
    chart("Staleness, versions", ["async/staleness_mean", "async/staleness_max"]),
    chart("Off-policy k3", ["offpolicy/k3_kl"]),
    chart("Mismatch of rollout and trainer", ["mismatch/logprob_abs_diff_max", "mismatch/k3_kl"]),
    chart("KL of the step", ["trainer/step_kl_mean", "trainer/step_kl_max"]),
    chart("Zero-variance groups, share", ["reward/frac_zero_std"]),
    chart("Tokens per second", ["perf/tokens_per_second", "rollout/sampled_tokens_per_second"]),
    chart("Idle share", ["trainer/idle_ratio", "rollout/idle_ratio"]),
    chart("Seconds of a step", ["perf/step_seconds", "perf/wait_seconds", "perf/train_seconds"]),
    chart("Speed-up by the tree, and its bound", ["tree/speedup", "tree/speedup_bound"]),
    chart("Response length, tokens", ["response_length/mean", "response_length/max"]),
    chart("Turns", ["num_turns/mean", "num_turns/max"]),
    chart("Episodes: truncated, malformed, repeated", ["agent/truncated_ratio", "agent/malformed_ratio", "agent/repeat_ratio"]),
    chart("Supervised loss", ["sft/loss", "sft/nll", "dpo/loss"], null),
    chart("Accuracy of preferences", ["dpo/accuracy"], null),
    chart("Margin of preferences", ["dpo/margin_mean"], null),
    chart("Supervised gradient norm", ["sft/grad_norm", "dpo/grad_norm"], null),
    chart("Supervised tokens per second", ["sft/tokens_per_second", "dpo/tokens_per_second"], null),
  ].filter((spec) => spec.names.length > 0);
}

export async function curvesOf(names: string[]): Promise<Record<string, Curve>> {
  const all: Record<string, Curve> = {};
  for (let i = 0; i < names.length; i += kAtATime) {
    const some = names.slice(i, i + kAtATime);
    Object.assign(all, (await ask<{ curves: Record<string, Curve> }>("curves", { names: some.join(","), points: kPoints })).curves);
  }
  return all;
}

function fact(value: string, meaning: string): HTMLElement {
  return h("div", { class: "fact" }, h("b", {}, value), h("span", {}, meaning));
}

function supervisedFacts(step: Row): HTMLElement {
  const figures: [string, string, number][] = [["sft/loss", "loss", 3], ["dpo/loss", "loss of preferences", 3], ["sft/nll", "nll", 3],
    ["dpo/accuracy", "accuracy of preferences", 3], ["sft/tokens_per_second", "tokens per second", 0], ["dpo/tokens_per_second", "tokens per second", 0]];
  return h("div", { class: "facts" }, fact(`${step.step + 1}`, "supervised steps"),
    figures.filter(([metric]) => metric in step.values).map(([metric, meaning, digits]) => fact(number(step.values[metric], digits), meaning)));
}

function facts(run: Run): HTMLElement {
  const last = run.last?.values ?? {};
  const j = run.efficiency;
  return h("div", { class: "facts" },
    fact(`${run.last ? run.last.step + 1 : 0} / ${run.facts.total_steps}`, "steps"),
    fact(number(last["reward/mean"]), "reward of the last step"),
    run.evaluated ? fact(number(run.evaluated.values["eval/reward_mean"]), `held-out reward, version ${run.evaluated.step}`) : null!,
    fact(number(last["perf/tokens_per_second"], 0), "tokens per second"),
    fact(percent(last["trainer/idle_ratio"]), "trainer idle"),
    fact(percent(last["rollout/idle_ratio"]), "engines idle"),
    fact(number(last["actor/entropy"]), "entropy, nats"),
    fact(number(last["offpolicy/k3_kl"]), "off-policy k3"),
    j ? fact(number(j.value), `J over ${j.steps} steps, 95 %: ${number(j.low)} to ${number(j.high)}`) : null!,
    run.update_variance ? fact(number(run.update_variance.value), `update variance of a group, step ${run.update_variance.step}`) : null!);
}

function engines(run: Run): Child {
  if (!run.engines) return null;
  const prefills = run.engines.filter((engine) => engine.prefill).map((engine) => h("p", {}, `${engine.name}: prefill ` +
    `${number(engine.prefill!.prefilled, 0)} of ${number(engine.prefill!.tokens, 0)} tokens of ${engine.prefill!.requests} requests, ` +
    `the oldest for ${seconds(engine.prefill!.oldest_seconds)}`));
  return [h("h2", {}, "Roles"), table("Engines, since their start", ["engine", "#version", "#running", "#waiting", "#KV blocks",
    "#sampled tokens", "#prompt tokens from the cache", "#idle"],
    run.engines.map((engine) => engine.error ? [engine.name, h("span", { class: "error" }, engine.error), "", "", "", "", "", ""] :
      [engine.name, engine.version < 0 ? "none yet" : engine.version, engine.running, engine.waiting, `${engine.kv_used} / ${engine.kv_total}`,
        number(engine.sampled_tokens), percent(engine.cached_prompt_tokens / Math.max(1, engine.prompt_tokens)),
        percent(engine.idle_share)])),
  prefills,
  run.scheduler ? h("p", {}, `Agents: ${run.scheduler.running_episodes} episodes run`,
    run.facts.concurrency ? ` in ${run.facts.concurrency} places (${percent(run.agents_idle_share)} idle now)` : "",
    `; ${number(run.scheduler.finished_episodes)} finished since this process started; ${run.scheduler.grading} groups are graded.`) : null,
  run.scheduler_error ? h("p", { class: "error" }, run.scheduler_error) : null];
}

export class Overview implements View {
  readonly title = "Overview";
  private readonly top = h("div");
  private readonly grid = h("div", { class: "charts" });
  private readonly heading = h("div");
  private readonly uncalled = new Uncalled();
  private charts: Chart[] = [];
  private key = "";
  private readonly dark = matchMedia("(prefers-color-scheme: dark)");

  constructor(place: HTMLElement) {
    replace(place, this.top, this.uncalled.element, this.heading, this.grid);
    this.dark.addEventListener("change", this.recolour);
    window.addEventListener("resize", this.resize);
  }

  async update(run: Run): Promise<void> {
    refresh(this.top,
      run.outdated ? h("p", { class: "error" }, `${run.outdated}.`) : null,
      run.pool_error ? h("p", { class: "error" }, `The pool cannot be read: ${run.pool_error}`) : null,
      run.no_pool ? h("p", { class: "soft" }, `There are no episodes: ${run.no_pool}.`) : null,
      run.broken_rows ? h("p", { class: "error" }, `${run.broken_rows} broken lines of metrics.jsonl are left out.`) : null,
      run.supervised && (run.facts.supervised || !run.rows) ? supervisedFacts(run.supervised) : null,
      run.facts.supervised ? (run.supervised ? null : h("p", {}, "The record has no step yet.")) : run.rows ? facts(run) :
        h("p", {}, "The record has no step yet. ", link("#/window", "The window"), " shows what runs."),
      run.trainer ? h("p", {}, `Trainer: ${run.trainer}`) : null,
      engines(run),
      run.started ? h("p", { class: "soft" }, `Started ${new Date(run.started * 1000).toLocaleString()}, ${seconds(run.now - run.started)} ago. Folder: ${run.folder}. `,
        run.last ? link(hash("step", { step: run.last.step }), "Groups of the newest step") : null) : null);
    this.uncalled.update(run);
    const specs = chartsFor(run.names);
    const key = JSON.stringify(specs.map((spec) => spec.names));
    if (key !== this.key) {
      this.key = key;
      this.charts.forEach((chart) => chart.destroy());
      this.charts = specs.map((spec) => new Chart(spec));
      replace(this.heading, specs.length ? [h("h2", {}, "Curves"), run.no_pool ? null : h("p", { class: "soft" }, "A click on a point opens the groups of its step.")] : null);
      replace(this.grid, this.charts.map((chart) => chart.element));
    }
    const curves = await curvesOf([...new Set(specs.flatMap((spec) => spec.names))]);
    this.charts.forEach((chart) => chart.update(curves));
  }

  close(): void {
    this.dark.removeEventListener("change", this.recolour);
    window.removeEventListener("resize", this.resize);
    this.charts.forEach((chart) => chart.destroy());
  }

  private readonly recolour = () => this.charts.forEach((chart) => chart.draw());
  private readonly resize = () => this.charts.forEach((chart) => chart.resize());
}
