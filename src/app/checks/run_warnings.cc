#include "app/checks/run_warnings.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "app/checks/loss_warnings.h"
#include "base/log.h"

namespace ingot::app {
namespace {

using Found = std::optional<std::string>;  // nullopt = no warning

// ---- At the start ---------------------------------------------------------------------------------------------------

// AdamW learning rates outside of these bounds are rarely intended. Below them, training changes nothing, and above
// them, it destroys the model.
struct Rate {
  const char* key;
  double value, low, high;
};

Found RateWarning(const Rate& rate) {
  if (rate.value >= rate.low && rate.value <= rate.high) return std::nullopt;
  return fmt::format("{} is {:g}; {} to {} is usual: {}", rate.key, rate.value, rate.low, rate.high,
                     rate.value > rate.high ? "this rate makes a policy forget everything; lower it"
                                            : "a policy learns almost nothing at this rate; raise it");
}

Found PolicyRate(const RunConfig& config, const DataFacts&) {
  if (config.tasks.empty()) return std::nullopt;
  return RateWarning({"trainer.learning_rate", config.trainer.optimizer.learning_rate, 1e-8, 5e-3});
}

Found SftRate(const RunConfig& config, const DataFacts&) {
  if (config.sft_data.empty()) return std::nullopt;
  return RateWarning({"sft.learning_rate", config.trainer.sft.optimizer.learning_rate, 1e-8, 2e-2});
}

Found DpoRate(const RunConfig& config, const DataFacts&) {
  if (config.dpo_data.empty()) return std::nullopt;
  return RateWarning({"dpo.learning_rate", config.trainer.dpo.optimizer.learning_rate, 1e-9, 2e-3});
}

Found LongWarmUp(const RunConfig& config, const DataFacts&) {
  const int64_t warm_up = config.trainer.optimizer.warmup_steps;
  if (config.tasks.empty() || warm_up == 0 || warm_up < config.trainer.total_steps) return std::nullopt;
  return fmt::format(
      "trainer.warmup_steps is {}, but the run has {} steps (scheduler.total_steps): the learning rate never reaches "
      "its "
      "peak; lower trainer.warmup_steps",
      warm_up, config.trainer.total_steps);
}

Found StageWithoutSteps(const RunConfig& config, const DataFacts&) {
  const auto idle = [](const std::string& data, const trainer::SftOptions& stage) {
    return !data.empty() && stage.epochs == 0 && stage.max_steps == 0;
  };
  for (const auto& [name, is_idle] : {std::pair("sft", idle(config.sft_data, config.trainer.sft)),
                                      std::pair("dpo", idle(config.dpo_data, config.trainer.dpo))}) {
    if (is_idle) {
      return fmt::format(
          "data.{0} has no effect because {0}.epochs and {0}.max_steps are 0: set one of them, or remove data.{0}",
          name);
    }
  }
  return std::nullopt;
}

Found GroupsOfOne(const RunConfig& config, const DataFacts&) {
  if (config.tasks.empty() || config.scheduler.group_size > 1 || !config.rewards.gives_rewards()) return std::nullopt;
  const std::string& normalization = config.trainer.advantage_normalization;
  if (normalization != "group" && normalization != "terms") return std::nullopt;
  return fmt::format(
      "scheduler.group_size is 1, and trainer.advantage_normalization {} divides by a group's standard deviation, "
      "which is 0 for one sample: set scheduler.group_size to 2 or more, or trainer.advantage_normalization to batch "
      "or none",
      normalization);
}

Found FewTasks(const RunConfig& config, const DataFacts& data) {
  if (data.tasks == 0 || data.tasks >= config.scheduler.groups_per_step) return std::nullopt;
  return fmt::format(
      "data.tasks has {} tasks, but a step trains {} groups (scheduler.groups_per_step): each step repeats tasks; give "
      "more tasks, or lower scheduler.groups_per_step",
      data.tasks, config.scheduler.groups_per_step);
}

Found SharedTasks(const RunConfig&, const DataFacts& data) {
  if (data.shared == 0) return std::nullopt;
  return fmt::format(
      "{} of {} tasks of eval.tasks are also training tasks (data.tasks), such as '{}': the evaluation measures "
      "trained tasks, not held-out ones; remove them from one of the files",
      data.shared, data.eval_tasks, data.shared_id);
}

Found TextBeyondContext(const RunConfig& config, const DataFacts& data) {
  if (data.context == 0 || data.shown_tokens < data.context) return std::nullopt;
  return fmt::format(
      "the shortest prompt that a recipe gives its agent has {} tokens, but the context has only {}, so calls are "
      "rejected; raise {}, or shorten the tasks",
      data.shown_tokens, data.context,
      config.rollout.context_length > 0 ? "rollout.context_length" : "model.context_length");
}

Found EvalWithoutTasks(const RunConfig& config, const DataFacts&) {
  // `ingot serve --learn` evaluates its versions, and trains on calls instead of tasks.
  if (!config.tasks.empty() || !config.eval.has_tasks() || config.learn.on()) return std::nullopt;
  return "eval.tasks has no effect without data.tasks: name training tasks, or remove eval.tasks";
}

Found GoalWithoutTasks(const RunConfig& config, const DataFacts&) {
  if (!config.tasks.empty() || (!config.goal.of_steps() && !config.goal.of_evaluation())) return std::nullopt;
  return "goal has no effect without data.tasks: name training tasks, or remove goal";
}

Found GoalBeyondTheRun(const RunConfig& config, const DataFacts&) {
  const int64_t steps = std::max(config.goal.first_steps, config.goal.last_steps);
  if (config.tasks.empty() || steps <= config.trainer.total_steps) return std::nullopt;
  return fmt::format(
      "goal needs {} steps, but the run has {} (scheduler.total_steps): it cannot be met; lower goal.first_steps "
      "and "
      "goal.last_steps, or raise scheduler.total_steps",
      steps, config.trainer.total_steps);
}

// Returns whether two terms can apply to the same group.
bool Meet(const reward::TermOptions& a, const reward::TermOptions& b) {
  const auto in = [](const std::string& domain, const std::vector<std::string>& domains) {
    return domains.empty() || std::find(domains.begin(), domains.end(), domain) != domains.end();
  };
  const bool domains = a.domains.empty() ||
                       std::any_of(a.domains.begin(), a.domains.end(), [&](const auto& d) { return in(d, b.domains); });
  const reward::TermSchedule &x = a.schedule, &y = b.schedule;
  const bool times = x.from < y.until && y.from < x.until;
  const bool phases = x.phase < 0 || y.phase < 0 || x.phase == y.phase || x.phase_steps != y.phase_steps;
  return domains && times && phases;
}

Found OutcomeTakenTwice(const RunConfig& config, const DataFacts&) {
  const std::vector<reward::TermOptions>& terms = config.rewards.terms;
  double outcome = 0;
  for (const reward::TermOptions& term : terms) outcome += term.kind == "outcome" ? term.weight : 0;
  const auto takes = [](const reward::TermOptions& term) {
    return term.kind == "toggle" || term.kind == "critical_steps";
  };
  for (size_t i = 0; i < terms.size(); ++i) {
    for (size_t j = i + 1; j < terms.size(); ++j) {
      const reward::TermOptions &a = terms[i], &b = terms[j];
      if (!takes(a) || !takes(b) || !Meet(a, b) || a.weight + b.weight <= outcome) continue;
      return fmt::format(
          "rewards.terms {} and {} both subtract the outcome, so a correct answer over both budgets gets {:g}, which "
          "is less than a wrong one: give them separate domains, or total weights of at most {:g}",
          a.Name(), b.Name(), outcome - a.weight - b.weight, outcome);
    }
  }
  return std::nullopt;
}

Found SlowGroups(const RunConfig& config, const DataFacts&) {
  if (config.tasks.empty()) return std::nullopt;
  double longest = 0;
  for (const agents::RecipeOptions& recipe : config.agents.recipes) longest = std::max(longest, recipe.timeout_s);
  const int64_t size = config.scheduler.group_size, at_once = std::max(1, config.agents.concurrency);
  const int64_t rounds = (size + at_once - 1) / at_once;
  const double group = static_cast<double>(rounds) * longest;
  if (group <= config.scheduler.group_deadline_seconds) return std::nullopt;
  return fmt::format(
      "the samples of a group may take {} s (scheduler.group_size={}, agents.concurrency={}, "
      "agents.recipes[].timeout_s={}), but a group that takes more than scheduler.group_deadline_s={} fails: "
      "raise "
      "the deadline or agents.concurrency",
      group, size, at_once, longest, config.scheduler.group_deadline_seconds);
}

// Such a verifier's shell and libraries are in the image, where its agent may have replaced them.
Found JudgeInTheAgentsImage(const RunConfig& config, const DataFacts&) {
  if (config.tasks.empty()) return std::nullopt;
  for (const agents::RecipeOptions& recipe : config.agents.recipes) {
    if (recipe.image.empty() || recipe.verifier.kind != "command" || recipe.verifier_sandbox != "auto") continue;
    return fmt::format(
        "agents.recipes '{}': the verifier runs programs from an image that the agent can change: set "
        "verifier_sandbox: pristine (only the work folder is copied) or changed, or agent if the agent is trusted",
        recipe.name);
  }
  return std::nullopt;
}

constexpr Found (*kAtStart[])(const RunConfig&, const DataFacts&) = {
    EvalWithoutTasks, GoalWithoutTasks, GoalBeyondTheRun, SlowGroups,        OutcomeTakenTwice,
    PolicyRate,       SftRate,          DpoRate,          LongWarmUp,        StageWithoutSteps,
    GroupsOfOne,      FewTasks,         SharedTasks,      TextBeyondContext, JudgeInTheAgentsImage,
};

// ---- At the end -----------------------------------------------------------------------------------------------------

// A share that triggers a warning if its mean over the run is large.
struct Share {
  std::string_view metric;  // docs/reference/metrics.md
  double most;              // a larger mean is a warning
  const char* means;        // "{:.0f} % of MEANS"
  const char* way_on;
};

constexpr std::string_view kEqualGroups = "reward/frac_zero_std";

constexpr Share kShares[] = {
    {"agent/malformed_ratio", 0.5, "the calls contain a tool call that the output format cannot parse",
     "look at some of them (ingot inspect RUN), and set model.chat_format to the format that the model writes"},
    {"agent/truncated_ratio", 0.5, "the calls ended at a length limit",
     "raise gateway.max_new_tokens or the context, or ask for shorter answers"},
    {"signal/answer_malformed", 0.5, "the episodes have no answer that the verifier can parse",
     "look at agents.recipes[].answer_from and at what the agent prints (ingot inspect RUN)"},
    {"agent/crash", 0.5, "the episodes' agents crashed", "look at the reasons (ingot inspect RUN)"},
    {"agent/timeout", 0.5, "the episodes' agents ran out of time", "raise agents.recipes[].timeout_s"},
    {kEqualGroups, 0.9, "the groups have the same reward in all samples, so they teach nothing",
     "choose easier or harder tasks, or raise scheduler.group_size"},
    {"trainer/skipped", 0.1, "the steps were skipped",
     "see the log for the reasons; where loss or gradient was not finite, lower trainer.learning_rate"},
};

std::vector<std::string> ShareWarnings(const RunConfig& config, const RunTally& tally) {
  std::vector<std::string> warnings;
  for (const Share& share : kShares) {
    if (share.metric == kEqualGroups && !config.rewards.token_terms().empty()) continue;  // their tokens are trained on
    const auto found = tally.means.find(std::string(share.metric));
    if (found == tally.means.end() || !(found->second.value() > share.most)) continue;
    warnings.push_back(
        fmt::format("{:.0f} % of {} ({}): {}", 100 * found->second.value(), share.means, share.metric, share.way_on));
  }
  return warnings;
}

double MeanValue(const RunTally& tally, const std::string& metric) {
  const auto found = tally.means.find(metric);
  return found == tally.means.end() ? 0 : found->second.value();
}

Found ManyClipped(const RunConfig&, const RunTally& tally) {
  const double clipped = MeanValue(tally, "actor/clipfrac_low") + MeanValue(tally, "actor/clipfrac_high");
  if (!(clipped > 0.3)) return std::nullopt;
  return fmt::format(
      "{:.0f} % of the trained tokens had a clipped ratio (actor/clipfrac_low, actor/clipfrac_high): the policy moves "
      "far from the policy that sampled; lower trainer.learning_rate or scheduler.max_staleness",
      100 * clipped);
}

Found StepsTakenBack(const RunConfig&, const RunTally& tally) {
  const double kept = 1 - MeanValue(tally, "trainer/step_scale");
  if (!tally.means.contains("trainer/step_scale") || !(kept > 0.5)) return std::nullopt;
  return fmt::format(
      "the trust region reduced steps to {:.0f} % of their length (trainer/step_scale); lower trainer.learning_rate, "
      "or raise trainer.max_step_kl",
      100 * (1 - kept));
}

Found Mismatch(const RunConfig& config, const RunTally& tally) {
  const bool exact = config.numerics == kernels::Numerics::kExact;
  const bool fp32 = config.trainer.dtype == "fp32" || (config.trainer.dtype == "model" && config.model.path.empty());
  const double most = exact ? 0 : fp32 ? 1e-3 : 0.5;
  if (!(tally.mismatch_max.value_or(0) > most)) return std::nullopt;
  return fmt::format(
      "rollout and trainer differ by {:.2e} in a token's log-prob (mismatch/logprob_abs_diff_max); {} is usual: the "
      "samples are not from the trained policy; compare both on one machine or with numerics=exact, and report the bug",
      *tally.mismatch_max, exact ? "0" : fmt::format("less than {:g}", most));
}

struct Part {
  double mean = 0, error = 0;  // standard error of the mean
  int64_t steps = 0;
};

Part PartOf(const std::vector<double>& values, size_t begin, size_t end) {
  Part part;
  part.steps = static_cast<int64_t>(end - begin);
  const auto count = static_cast<double>(part.steps);
  for (size_t i = begin; i < end; ++i) part.mean += values[i] / count;
  double square = 0;
  for (size_t i = begin; i < end; ++i) square += (values[i] - part.mean) * (values[i] - part.mean);
  part.error = std::sqrt(square / count / std::max(1.0, count - 1));
  return part;
}

// Returns the rewards from the steps that have one.
std::vector<double> Finite(const std::vector<double>& rewards) {
  std::vector<double> finite;
  std::copy_if(rewards.begin(), rewards.end(), std::back_inserter(finite), [](double r) { return std::isfinite(r); });
  return finite;
}

constexpr size_t kFewestSteps = 8;  // minimum needed to judge the curve

// The first and last quarters of a curve.
struct Trend {
  Part first, last;

  // Returns true if the curve moves in the direction of `sign` by more than its noise.
  bool Moves(double sign) const {
    const double way = sign * (last.mean - first.mean);
    const double noise = std::sqrt(first.error * first.error + last.error * last.error);
    return way > 3 * noise && way > 0.02 * std::max(1.0, std::abs(first.mean));
  }
};

// Returns nullopt if there are too few steps.
std::optional<Trend> TrendOf(const std::vector<double>& values) {
  const std::vector<double> finite = Finite(values);
  if (finite.size() < kFewestSteps) return std::nullopt;
  const size_t quarter = finite.size() / 4;
  return Trend{PartOf(finite, 0, quarter), PartOf(finite, finite.size() - quarter, finite.size())};
}

Found FallingReward(const RunConfig&, const RunTally& tally) {
  const std::optional<Trend> trend = TrendOf(tally.rewards);
  if (!trend.has_value() || !trend->Moves(-1)) return std::nullopt;
  return fmt::format(
      "the {} fell from {:.3f} (first {} steps) to {:.3f} (last {}): lower trainer.learning_rate, and check "
      "actor/entropy, actor/grad_norm, and the last steps' episodes (ingot inspect RUN)",
      tally.reward.name, trend->first.mean, trend->first.steps, trend->last.mean, trend->last.steps);
}

// Warns if the policy moves away from a teacher.
Found RisingKl(const RunConfig&, const RunTally& tally) {
  for (const Curve& curve : tally.curves) {
    const std::optional<Trend> trend = TrendOf(curve.values);
    if (!trend.has_value() || !trend->Moves(1)) continue;
    return fmt::format(
        "the {} ({}) rose from {:.3f} (first {} steps) to {:.3f} (last {}): the policy moves away from its teacher; "
        "lower trainer.learning_rate, or raise the term's weight if other terms outweigh it",
        curve.figure.name, curve.figure.metric, trend->first.mean, trend->first.steps, trend->last.mean,
        trend->last.steps);
  }
  return std::nullopt;
}

Found ConstantReward(const RunConfig& config, const RunTally& tally) {
  if (!config.rewards.gives_rewards()) return std::nullopt;  // tokens are trained on regardless of the verifier
  const std::vector<double> rewards = Finite(tally.rewards);
  if (rewards.size() < kFewestSteps) return std::nullopt;
  const auto [low, high] = std::minmax_element(rewards.begin(), rewards.end());
  if (*high - *low > 1e-9) return std::nullopt;
  return fmt::format(
      "the mean reward was {:g} at each of {} steps: the verifier gives all samples the same score; check its verdicts "
      "(ingot inspect RUN)",
      *low, rewards.size());
}

constexpr Found (*kAtEnd[])(const RunConfig&, const RunTally&) = {
    FallingReward, RisingKl, ConstantReward, ManyClipped, StepsTakenBack, Mismatch,
};

}  // namespace

std::vector<std::string> StartWarnings(const RunConfig& config, const DataFacts& data) {
  std::vector<std::string> warnings;
  for (const auto find : kAtStart) {
    if (Found warning = find(config, data)) warnings.push_back(*std::move(warning));
  }
  for (std::string& warning : LossWarnings(config, data)) warnings.push_back(std::move(warning));
  return warnings;
}

std::vector<std::string> EndWarnings(const RunConfig& config, const RunTally& tally) {
  std::vector<std::string> warnings = ShareWarnings(config, tally);
  for (const auto find : kAtEnd) {
    if (Found warning = find(config, tally)) warnings.push_back(*std::move(warning));
  }
  return warnings;
}

}  // namespace ingot::app
