#include "app/checks/summary.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_join.h"
#include "app/terminal/terminal.h"
#include "base/checksum.h"
#include "base/log.h"
#include "base/status.h"
#include "tree/episode_time.h"

namespace ingot::app {
namespace {

double MeanOf(std::vector<double>::const_iterator begin, std::vector<double>::const_iterator end) {
  double sum = 0;
  for (auto value = begin; value != end; ++value) sum += *value;
  return begin == end ? std::nan("") : sum / static_cast<double>(end - begin);
}

// Returns "  0.260 -> 0.650" with the first and last values.
std::string Ends(const std::vector<double>& values) {
  const auto is_judged = [](double value) { return std::isfinite(value); };
  const auto first = std::find_if(values.begin(), values.end(), is_judged);
  const auto last = std::find_if(values.rbegin(), values.rend(), is_judged);
  return first == values.end() ? "" : fmt::format("  {:.3f} -> {:.3f}", *first, *last);
}

// Scales the values so that the highest is 1.
std::vector<double> Scaled(std::vector<double> values) {
  double most = 0;
  for (const double value : values) most = std::isfinite(value) ? std::max(most, value) : most;
  for (double& value : values) value /= most > 0 ? most : 1;
  return values;
}

}  // namespace

Figures FiguresOf(const reward::RewardOptions& rewards) {
  Figures figures = kReward;
  if (!rewards.gives_rewards()) figures = {{"outcome", "reward/outcome"}};
  const std::vector<std::string> teachers = rewards.token_terms();
  for (const std::string& term : teachers) {
    figures.push_back({teachers.size() == 1 ? "reverse KL" : absl::StrCat("reverse KL of ", term),
                       absl::StrCat("reward/term/", term, "/reverse_kl")});
  }
  return figures;
}

GoalVerdict JudgeGoal(const GoalOptions& goal, const std::vector<double>& rewards, std::optional<double> evaluated,
                      const std::string& name) {
  if (!goal.of_steps() && !goal.of_evaluation()) return {};
  const auto steps = static_cast<int64_t>(rewards.size());
  if (steps < std::max(goal.first_steps, goal.last_steps)) {
    return {false, fmt::format("goal not met: {} steps are too few for the goal", steps)};
  }
  GoalVerdict verdict;
  std::vector<std::string> results;
  if (goal.of_steps()) {
    const double first = MeanOf(rewards.begin(), rewards.begin() + goal.first_steps);
    const double last = MeanOf(rewards.end() - goal.last_steps, rewards.end());
    if (goal.first_steps > 0 && !(first < goal.first_reward_below)) verdict.met = false;
    if (goal.last_steps > 0 && !(last > goal.last_reward_above)) verdict.met = false;
    results.push_back(
        fmt::format("mean {} of the first {} steps {:.3f} (below {}), of the last {} steps {:.3f} (above {})", name,
                    goal.first_steps, first, goal.first_reward_below, goal.last_steps, last, goal.last_reward_above));
  }
  if (goal.of_evaluation()) {
    if (!(evaluated.has_value() && *evaluated > goal.eval_above)) verdict.met = false;
    results.push_back(evaluated.has_value()
                          ? fmt::format("held-out reward {:.3f} (above {})", *evaluated, goal.eval_above)
                          : fmt::format("no evaluation of the last version (above {})", goal.eval_above));
  }
  verdict.text = absl::StrCat("goal ", verdict.met ? "met" : "NOT met", ": ", absl::StrJoin(results, "; "));
  return verdict;
}

std::string FormatSummary(const RunTally& tally, double wall_seconds, int64_t since) {
  std::string text =
      fmt::format("{:<16} {}{}", tally.reward.name + " by step", Sparkline(tally.rewards), Ends(tally.rewards));
  for (const Curve& curve : tally.curves) {
    text += fmt::format("\n{:<16} {}{}", curve.figure.name, Sparkline(Scaled(curve.values)), Ends(curve.values));
  }
  int64_t tokens = 0;
  for (const auto& [age, count] : tally.staleness) tokens += count;
  text += "\nstaleness        ";
  for (const auto& [age, count] : tally.staleness) {
    text += fmt::format("{} version{}: {:.1f}%  ", age, age == 1 ? "" : "s",
                        100.0 * static_cast<double>(count) / static_cast<double>(std::max<int64_t>(tokens, 1)));
  }
  const double seconds = std::max(tally.step_seconds, 1e-9);
  text += fmt::format("\nidle shares      trainer {:.0f}%, rollout {:.0f}%", 100 * tally.trainer_idle_seconds / seconds,
                      100 * tally.rollout_idle_seconds / seconds);
  text += "\nmismatch         largest log-prob difference, rollout to trainer: ";
  text += tally.mismatch_max ? fmt::format("{:.2e}", *tally.mismatch_max) : "not measured";
  text += fmt::format("\nepisodes         {} finished; wall time {:.0f} s", tally.episodes, wall_seconds);
  if (since > 0) text += fmt::format("; all figures except rewards start at step {}, where the run resumed", since);
  return text;
}

std::map<std::string, double> AgentMetrics(const std::vector<v1::Group>& groups) {
  double episodes = 0, seconds = 0, branches = 0;
  double calls = 0, malformed = 0, truncated = 0, repeated = 0;
  for (const v1::Group& group : groups) {
    for (const v1::EpisodeTree& tree : group.episodes()) {
      ++episodes;
      seconds += tree::SecondsOf(tree.episode());
      std::set<std::string> names;
      std::set<std::string> sampled;
      int forks = 0;
      for (const v1::Call& call : tree.calls()) {
        ++calls;
        malformed += call.tool_call_malformed();
        truncated += call.finish() == v1::FINISH_LENGTH;
        names.insert(call.branch());
        forks += !call.fork_cause().empty();
        std::string ids;
        for (const std::string& key : call.sampled_keys()) {
          const auto segment = tree.segments().find(base::Hex(key));
          if (segment == tree.segments().end()) continue;
          for (const int32_t id : segment->second.token_ids()) ids += absl::StrCat(id, " ");
        }
        repeated += !sampled.insert(ids).second;
      }
      branches += static_cast<double>(std::max<size_t>(names.size(), 1)) + forks;
    }
  }
  if (episodes == 0 || calls == 0) return {};
  return {{"agent/completion_seconds", seconds / episodes},
          {"agent/tool_error_rate", malformed / calls},
          {"agent/truncated_ratio", truncated / calls},
          {"agent/parallel_branches", branches / episodes},
          {"agent/repeat_ratio", repeated / calls}};
}

}  // namespace ingot::app
