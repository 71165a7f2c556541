// Draws the overview: progress, efficiency, roles, and curves.
import { hash } from "./address";
import { Curve, Row, Run, ask } from "./api";
import { ChartSection } from "./chart_section";
import { Child, h, link, number, percent, refresh, replace, seconds, table } from "./dom";
import { Folds, browserStore } from "./folds";
import { isFinished } from "./run_state";
import { sectionsFor } from "./sections";
import { Uncalled } from "./uncalled";
import { View } from "./view";

const kPoints = 400;
const kAtATime = 60;  // curves per request

export async function curvesOf(names: string[]): Promise<Record<string, Curve>> {
  const all: Record<string, Curve> = {};
  for (let i = 0; i < names.length; i += kAtATime) {
    const some = names.slice(i, i + kAtATime);
    Object.assign(all, (await ask<{ curves: Record<string, Curve> }>("curves", { names: some.join(","), points: kPoints })).curves);
  }
  return all;
}

// `about` is the fact's tooltip.
function fact(value: string, meaning: string, about?: string): HTMLElement {
  return h("div", { class: "fact", title: about }, h("b", {}, value), h("span", {}, meaning));
}

function supervisedFacts(step: Row): HTMLElement {
  const figures: [string, string, number][] = [["sft/loss", "loss", 3], ["dpo/loss", "preference loss", 3], ["sft/nll", "nll", 3],
    ["dpo/accuracy", "preference accuracy", 3], ["sft/tokens_per_second", "tokens per second", 0], ["dpo/tokens_per_second", "tokens per second", 0]];
  return h("div", { class: "facts" }, fact(`${step.step + 1}`, "supervised steps"),
    figures.filter(([metric]) => metric in step.values).map(([metric, meaning, digits]) => fact(number(step.values[metric], digits), meaning)));
}

function facts(run: Run): HTMLElement {
  const last = run.last?.values ?? {};
  return h("div", { class: "facts" },
    fact(`${run.last ? run.last.step + 1 : 0} / ${run.facts.total_steps}`, "steps"),
    fact(number(last["reward/mean"]), "reward in the last step"),
    run.evaluated ? fact(number(run.evaluated.values["eval/reward_mean"]), `held-out reward, version ${run.evaluated.step}`) : null!,
    fact(number(last["perf/tokens_per_second"], 0), "tokens per second", "tokens in all calls of the last step, with their contexts, divided by its wall-clock time"),
    fact(percent(last["trainer/idle_ratio"]), "trainer idle", "share of the last step in which the trainer waited for a batch"),
    fact(percent(last["rollout/idle_ratio"]), "engines idle", "share of the last step in which the engines had nothing to decode"),
    fact(number(last["actor/entropy"]), "entropy, nats"),
    fact(number(last["offpolicy/k3_kl"]), "off-policy k3", "estimated KL from the weights that sampled the batch to the weights before the step"),
    run.update_variance ? fact(number(run.update_variance.value), `one group's noise, step ${run.update_variance.step}`, "update variance: |g_i - g|² / |g|², the mean over the batch's groups") : null!);
}

function efficiency(run: Run): Child {
  const j = run.efficiency;
  return j ? h("p", { class: "soft" }, `Learning efficiency J = ${number(j.tokens_per_second)} tokens per second × ${number(j.reward_per_million)} reward gained per million ` +
    `trained tokens = ${number(j.value)} (95%: ${number(j.low)} to ${number(j.high)}), over the last ${j.steps} steps.`) : null;
}

function engines(run: Run): Child {
  if (!run.engines) return null;
  const prefills = run.engines.filter((engine) => engine.prefill).map((engine) => h("p", {}, `${engine.name}: prefill ` +
    `${number(engine.prefill!.prefilled, 0)} of ${number(engine.prefill!.tokens, 0)} tokens of ${engine.prefill!.requests} requests, ` +
    `the oldest for ${seconds(engine.prefill!.oldest_seconds)}`));
  return [h("h2", {}, "Roles"), table("Engines, since startup", ["engine", "#version", "#running", "#waiting", "#KV blocks",
    "#sampled tokens", "#prompt tokens from the cache", "#idle"],
    run.engines.map((engine) => engine.error ? [engine.name, h("span", { class: "error" }, engine.error), "", "", "", "", "", ""] :
      [engine.name, engine.version < 0 ? "none yet" : engine.version, engine.running, engine.waiting, `${engine.kv_used} / ${engine.kv_total}`,
        number(engine.sampled_tokens), percent(engine.cached_prompt_tokens / Math.max(1, engine.prompt_tokens)),
        percent(engine.idle_share)])),
  prefills,
  run.scheduler ? h("p", {}, `Agents: ${run.scheduler.running_episodes} episodes are running`,
    run.facts.concurrency ? ` in ${run.facts.concurrency} slots (${percent(run.agents_idle_share)} idle now)` : "",
    `; ${number(run.scheduler.finished_episodes)} finished since this process started; ${run.scheduler.grading} groups are being graded.`) : null,
  run.scheduler_error ? h("p", { class: "error" }, run.scheduler_error) : null];
}

function started(run: Run): Child {
  if (!run.started) return null;
  const last = run.last;
  const until = (isFinished(run) || !run.live) && last ? `the newest step ended ${seconds(last.time - run.started)} later` :
    `${seconds(run.now - run.started)} ago`;
  return h("p", { class: "soft" }, `Started ${new Date(run.started * 1000).toLocaleString()}, ${until}. Folder: ${run.folder}. `,
    last ? link(hash("step", { step: last.step }), "Groups in the newest step") : null);
}

export class Overview implements View {
  readonly title = "Overview";
  private readonly top = h("div");
  private readonly curves = h("div");
  private readonly heading = h("div");
  private readonly uncalled = new Uncalled();
  private readonly folds = new Folds(browserStore());
  private sections: ChartSection[] = [];
  private key = "";
  private readonly dark = matchMedia("(prefers-color-scheme: dark)");

  constructor(place: HTMLElement) {
    replace(place, this.top, this.uncalled.element, this.heading, this.curves);
    this.dark.addEventListener("change", this.recolour);
    window.addEventListener("resize", this.resize);
  }

  async update(run: Run): Promise<void> {
    refresh(this.top,
      run.outdated ? h("p", { class: "error" }, `${run.outdated}.`) : null,
      run.pool_error ? h("p", { class: "error" }, `The pool cannot be read: ${run.pool_error}`) : null,
      run.no_pool ? h("p", { class: "soft" }, `There are no episodes: ${run.no_pool}.`) : null,
      run.broken_rows ? h("p", { class: "error" }, `${run.broken_rows} invalid lines in metrics.jsonl were skipped.`) : null,
      run.supervised && (run.facts.supervised || !run.rows) ? supervisedFacts(run.supervised) : null,
      run.facts.supervised ? (run.supervised ? null : h("p", {}, "The record has no steps yet.")) : run.rows ? [facts(run), efficiency(run)] :
        h("p", {}, "The record has no steps yet. ", link(hash("window"), "The window"), " shows what is running."),
      run.trainer ? h("p", {}, `Trainer: ${run.trainer}`) : null,
      engines(run), started(run));
    this.uncalled.update(run);
    const wanted = sectionsFor(run.names);
    const key = JSON.stringify(wanted);
    if (key !== this.key) {
      this.key = key;
      this.sections.forEach((section) => section.close());
      this.sections = wanted.map((section, i) => new ChartSection(section, i === 0, this.folds, () => void this.fill().catch(() => undefined)));
      replace(this.heading, wanted.length && !run.no_pool ? h("p", { class: "soft" }, "Click a point to open its step's groups.") : null);
      replace(this.curves, this.sections.map((section) => section.element));
    }
    await this.fill();
  }

  close(): void {
    this.dark.removeEventListener("change", this.recolour);
    window.removeEventListener("resize", this.resize);
    this.sections.forEach((section) => section.close());
  }

  // Loads the curves of the open sections. If this fails after a click, the next poll retries it.
  private async fill(): Promise<void> {
    const curves = await curvesOf([...new Set(this.sections.flatMap((section) => section.names()))]);
    this.sections.forEach((section) => section.update(curves));
  }

  private readonly recolour = () => this.sections.forEach((section) => section.draw());
  private readonly resize = () => this.sections.forEach((section) => section.resize());
}
