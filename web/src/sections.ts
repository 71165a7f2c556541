// Chooses the charts for a run's record, by subject. Pure.
import { ChartSpec, kColours } from "./chart_spec";

const kMostAlike = 64;  // maximum number of similar curves, such as one per domain; reward terms have no limit

export interface Section { title: string; charts: ChartSpec[] }

// Returns charts for all curves whose names start with `prefix`, as many as needed to give each curve its own color.
function every(title: string, prefix: string, found: string[], opens: ChartSpec["opens"] = "step", most = Infinity): ChartSpec[] {
  const shown = found.slice(0, most), charts: ChartSpec[] = [];
  for (let i = 0; i < shown.length; i += kColours.length) {
    const some = shown.slice(i, i + kColours.length);
    const part = shown.length > kColours.length ? `, ${i + 1} to ${i + some.length} of ${found.length}` : "";
    charts.push({ title: title + part, names: some, labels: some.map((name) => name.slice(prefix.length)), opens });
  }
  return charts;
}

const whole = (rest: string) => !/[/@]/.test(rest);  // excludes measures of one term or of some episodes

// Returns the chart sections for the metrics in the record. The first one shows the reward and the evaluation, or the loss if the
// run has only supervised stages. Sections without charts are omitted.
export function sectionsFor(names: string[]): Section[] {
  const has = new Set(names);
  const like = (prefix: string, wanted: (rest: string) => boolean = () => true) =>
    names.filter((name) => name.startsWith(prefix) && wanted(name.slice(prefix.length)));
  const chart = (title: string, wanted: string[], opens: ChartSpec["opens"] = "step", about?: string): ChartSpec =>
    ({ title, names: wanted.filter((name) => has.has(name)), opens, ...(about ? { about } : {}) });
  const supervised = [chart("Supervised loss", ["sft/loss", "sft/nll", "dpo/loss"], null),
    chart("Preference accuracy", ["dpo/accuracy"], null),
    chart("Preference margin", ["dpo/margin_mean"], null),
    chart("Supervised gradient norm", ["sft/grad_norm", "dpo/grad_norm"], null),
    chart("Supervised tokens per second", ["sft/tokens_per_second", "dpo/tokens_per_second"], null)];
  const sections: Section[] = [
    { title: "Reward and evaluation", charts: [
      chart("Reward", ["reward/mean", "reward/batch_mean"], "step", "mean: all groups that finished; batch_mean: the trained ones, without groups of equal rewards"),
      ...every("Reward by role", "reward/batch_mean@role:", like("reward/batch_mean@role:"), "step", kMostAlike),
      chart("Evaluation on held-out tasks", ["eval/reward_mean", "eval/graded_mean"], "eval")] },
    { title: "Rewards by term and domain", charts: [
      ...every("Reward by term, before weights", "reward/term/", like("reward/term/", whole)),
      ...every("Reward by domain", "reward/batch_mean@domain:", like("reward/batch_mean@domain:"), "step", kMostAlike),
      ...every("Reward term measures", "reward/term/", like("reward/term/", (rest) => rest.includes("/") && !rest.includes("@")), "step", kMostAlike),
      ...every("Signals", "signal/", like("signal/", (rest) => !rest.includes("@")), "step", kMostAlike)] },
    { title: "Evaluations by term, set, and domain", charts: [
      ...every("Evaluation by reward term, before weights", "eval/term/", like("eval/term/"), "eval"),
      ...every("Evaluation, pass@k", "eval/", like("eval/pass@", (rest) => !rest.includes("@")), "eval"),
      ...every("Evaluation by set", "eval/reward_mean@set:", like("eval/reward_mean@set:"), "eval", kMostAlike),
      ...every("Evaluation by domain", "eval/reward_mean@domain:", like("eval/reward_mean@domain:"), "eval", kMostAlike)] },
    { title: "Trainer", charts: [
      chart("Entropy, nats", ["actor/entropy"]),
      chart("Share of clipped tokens", ["actor/clipfrac_low", "actor/clipfrac_high"], "step", "tokens whose importance ratio left the allowed range"),
      chart("Importance ratio", ["cispo/ratio_mean", "cispo/ratio_max"], "step", "probability of a token under the trained weights, relative to when it was sampled"),
      chart("Gradient norm", ["actor/grad_norm"]),
      chart("Update variance", ["trainer/update_variance"], "step", "noise of one group's gradient, relative to the batch's"),
      chart("Off-policy k3", ["offpolicy/k3_kl"], "step", "estimated KL from the weights that sampled the batch to the weights before the step"),
      chart("Step KL", ["trainer/step_kl_mean", "trainer/step_kl_max"], "step", "how far the step moved the policy, in nats per token"),
      chart("Rollout and trainer mismatch", ["mismatch/logprob_abs_diff_max", "mismatch/k3_kl"], "step", "difference between their log-probs for the same tokens and weights")] },
    { title: "Rollout", charts: [
      chart("Response length, tokens", ["response_length/mean", "response_length/max"]),
      chart("Turns", ["num_turns/mean", "num_turns/max"]),
      chart("Tokens per pass", ["rollout/tokens_per_pass", "draft/shadow_tokens_per_pass"], "step", "tokens per request and forward pass; 1 without speculation; the shadow's would be those of the first version's draft head"),
      chart("Draft head", ["draft/accept_rate", "draft/shadow_accept_rate", "draft/overlap"], "step", "share of its drafts that were accepted, and of the first version's head, and its overlap with the policy on trained tokens"),
      chart("Episodes: truncated, malformed, repeated", ["agent/truncated_ratio", "agent/malformed_ratio", "agent/repeat_ratio"])] },
    { title: "Scheduler", charts: [
      chart("Staleness, versions", ["async/staleness_mean", "async/staleness_max"], "step", "optimizer steps between sampling a token and training on it"),
      chart("Share of zero-variance groups", ["reward/frac_zero_std"], "step", "groups whose episodes all have the same reward, which give nothing to learn")] },
    { title: "Time and tokens", charts: [
      chart("Step time in seconds", ["perf/step_seconds", "perf/wait_seconds", "perf/train_seconds"]),
      chart("Tokens per second", ["perf/tokens_per_second", "rollout/sampled_tokens_per_second"]),
      chart("Idle share", ["trainer/idle_ratio", "rollout/idle_ratio"]),
      chart("Speedup from the tree, and its bound", ["tree/speedup", "tree/speedup_bound"], "step", "compared with training one sample per call")] },
    { title: "Supervised stages", charts: supervised },
  ];
  return sections.map(({ title, charts }) => ({ title, charts: charts.filter((spec) => spec.names.length > 0) }))
    .filter((section) => section.charts.length > 0);
}
