#include "trainer/batch.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "trainer/advantages/advantage.h"
#include "trainer/advantages/branch_advantage.h"
#include "trainer/advantages/group_rows.h"
#include "trainer/episode_metrics.h"
#include "tree/token_advantages.h"

namespace ingot::trainer {
namespace {

// Log-probs come from an fp32 log-softmax, where rounding may give a certain token a value slightly above 0.
constexpr float kLogprobRounding = 1e-4f;

bool Flagged(const v1::Call& call) {
  const v1::SamplingParams& sampling = call.sampling();
  return sampling.penalty_acted() || sampling.bias_acted() || sampling.grammar_acted();
}

// Returns whether a length limit (max_new_tokens or the context length) ended a call that used the run's weights.
bool Truncated(const v1::Call& call) {
  return call.finish() == v1::FINISH_LENGTH && call.weights() == v1::WEIGHTS_FOLLOW && !call.encoded();
}

// Returns the oldest version with tokens that bear loss.
int64_t OldestTrained(const TrainerOptions& options, int64_t version) {
  if (options.train_segments == "current_version") return version;
  return options.train_segments == "max_age" ? version - options.train_segments_max_age : 0;
}

struct Counts {
  int64_t trunks = 0;
  int64_t episodes_left_out = 0;
  int64_t episodes_ungraded = 0;  // in graded groups
  int64_t episodes_unpaired = 0;  // with loss tokens, but not in a pair
  int64_t groups_equal = 0;       // groups in the batch with equal returns; the scheduler drops others earlier
  int64_t groups_filtered = 0;
  int64_t calls_left_out_weights = 0;
  int64_t calls_left_out_flagged = 0;
  int64_t calls_left_out_truncated = 0;
  int64_t calls_empty = 0;  // without sampled tokens
  int64_t tokens_left_out_age = 0;
};

// Collects the calls in all groups. Once all rewards are known, Finish computes the remaining calls' advantages and
// weights.
class Collector {
 public:
  Collector(const TrainerOptions& options, const TokenLimits& limits, int64_t version, PreparedBatch& out)
      : options_(options),
        limits_(limits),
        version_(version),
        oldest_trained_(OldestTrained(options, version)),
        out_(out) {}

  absl::Status AddGroup(const v1::Group& group) {
    const int32_t index = static_cast<int32_t>(groups_.size());
    INGOT_ASSIGN_OR_RETURN(TrainedGroup trained, RowsOf(group, RowRule::Of(options_)));
    counts_.episodes_left_out += trained.left_out;
    counts_.episodes_ungraded += trained.ungraded;
    if (out_.reward_fault.empty()) out_.reward_fault = trained.reward_fault;
    has_token_advantages_.push_back(false);
    groups_.push_back(std::move(trained.rows));
    trunk_sampled_.assign(groups_.back().trunk_turns.size(), 0);
    for (const TrainedGroup::Part& part : trained.parts) {
      const v1::EpisodeTree& tree = group.episodes(part.episode);
      INGOT_RETURN_IF_ERROR(
          base::Annotate(AddEpisode(tree, index, part),
                         absl::StrCat("group ", group.group_id(), ", episode ", tree.episode().episode_id())));
    }
    // A trunk that needed no fork may be an extra sample (scheduler/train_groups.h).
    const int64_t finished = std::ssize(groups_.back().rows) + trained.ungraded;
    const bool branches = std::any_of(group.episodes().begin(), group.episodes().end(), [&](const auto& tree) {
      return tree.episode().ref().sample_index() >= options_.group_size;
    });
    if (options_.group_size > 0 && finished != options_.group_size && !(branches && finished > options_.group_size)) {
      return absl::InvalidArgumentError(absl::StrCat("group ", group.group_id(), " has ", finished - trained.ungraded,
                                                     " finished samples, but group_size is ", options_.group_size));
    }
    return absl::OkStatus();
  }

  void Finish(const v1::FeedStats& feed) {
    const std::vector<BranchedAdvantages> advantages =
        AdvantagesOfRows(groups_, {options_.advantage_baseline, options_.advantage_normalization,
                                   options_.filter_zero_variance, options_.advantage_branches, options_.by_role()});
    std::vector<bool> left_out(episodes_.size(), false);
    const auto filtered = [&](size_t group) { return advantages[group].filtered && !has_token_advantages_[group]; };
    for (size_t e = 0; e < episodes_.size(); ++e) left_out[e] = filtered(episodes_[e].group);
    for (size_t group = 0; group < advantages.size(); ++group) {
      counts_.groups_equal += advantages[group].equal ? 1 : 0;
      counts_.groups_filtered += filtered(group) ? 1 : 0;
    }
    if (options_.objective == "dpo") Pair(left_out);
    for (PendingCall& pending : pending_) {
      const size_t episode = static_cast<size_t>(pending.call.episode);
      if (left_out[episode]) continue;
      const Sample& sample = episodes_[episode];
      const BranchedAdvantages& of_group = advantages[sample.group];
      out_.advantages.push_back((sample.trunk ? of_group.trunks : of_group.rows)[sample.index][pending.turn]);
      AddCall(std::move(pending));
    }
    out_.episodes = static_cast<int32_t>(episodes_.size());
    out_.weights = TokenWeights(extents_, options_.loss_aggregation, options_.loss_constant_tokens);
    if (out_.loss_tokens == 0) out_.empty_reason = WhyEmpty();
    Report(feed);
  }

 private:
  struct Sample {
    size_t group = 0;
    bool trunk = false;
    size_t index = 0;         // among its group's rows, or trunks
    int64_t loss_tokens = 0;  // before groups are filtered and pairs are made
  };
  struct PendingCall {
    tree::CallPath call;
    std::vector<uint8_t> bears_loss;
    std::vector<double> token_advantages;  // one per sampled token; empty = none
    size_t turn = 0;
    int64_t loss_tokens = 0;
  };

  absl::Status AddEpisode(const v1::EpisodeTree& tree, int32_t group, const TrainedGroup::Part& part) {
    Sample sample{static_cast<size_t>(group), part.trunk, part.index, 0};
    INGOT_ASSIGN_OR_RETURN(std::vector<tree::CallPath> calls,
                           tree::CallPathsOf(tree, static_cast<int32_t>(episodes_.size()), group));
    const bool all_truncated =
        options_.truncated == "mask_episode" && std::any_of(tree.calls().begin(), tree.calls().end(), Truncated);
    int64_t sampled = 0;
    for (size_t turn = 0; turn < calls.size(); ++turn) {
      const v1::Call& call = tree.calls(static_cast<int>(turn));
      const int64_t tokens = std::ssize(calls[turn].sampled);
      sampled += tokens;
      if (call.weights() != v1::WEIGHTS_FOLLOW || call.encoded()) {
        ++counts_.calls_left_out_weights;
        continue;
      }
      if (Flagged(call)) {
        ++counts_.calls_left_out_flagged;
        continue;
      }
      if (tokens == 0) {
        ++counts_.calls_empty;
        continue;
      }
      if (all_truncated || (options_.truncated == "mask_call" && Truncated(call))) {
        ++counts_.calls_left_out_truncated;
        continue;
      }
      INGOT_RETURN_IF_ERROR(CheckCall(calls[turn], limits_, /*recorded=*/true));
      INGOT_ASSIGN_OR_RETURN(PendingCall pending, MaskByAge(std::move(calls[turn])));
      pending.turn = turn;
      if (tree.episode().has_grade()) {
        INGOT_ASSIGN_OR_RETURN(pending.token_advantages, tree::TokenAdvantages(tree.episode().grade(), call.call_id(),
                                                                               pending.call.sampled.size()));
      }
      if (!pending.token_advantages.empty()) has_token_advantages_.back() = true;
      sample.loss_tokens += pending.loss_tokens;
      if (pending.loss_tokens > 0) pending_.push_back(std::move(pending));
    }
    episodes_.push_back(sample);
    records_.push_back(&tree.episode());
    if (part.trunk) {
      trunk_sampled_[part.index] = sampled;
      ++counts_.trunks;
      return absl::OkStatus();
    }
    // A leaf's episode is the whole path.
    const int32_t trunk = groups_.back().trunks[part.index];
    const auto place = static_cast<size_t>(std::max(trunk, 0));
    if (trunk < 0) {
      metrics_.AddEpisode(tree, sampled);
    } else {
      metrics_.AddEpisode(tree, sampled + trunk_sampled_[place],
                          static_cast<int64_t>(groups_.back().trunk_turns[place]));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<PendingCall> MaskByAge(tree::CallPath call) {
    PendingCall pending;
    pending.loss_tokens = static_cast<int64_t>(call.versions.size());
    for (size_t i = 0; i < call.versions.size(); ++i) {
      if (call.versions[i] > version_) {
        return absl::InvalidArgumentError(absl::StrCat("call ", call.call_id, " was sampled at version ",
                                                       call.versions[i], ", newer than the trainer's ", version_,
                                                       ": it belongs to another run or a later step"));
      }
      if (call.versions[i] >= oldest_trained_) continue;
      if (pending.bears_loss.empty()) pending.bears_loss.assign(call.versions.size(), 1);
      pending.bears_loss[i] = 0;
      --pending.loss_tokens;
      ++counts_.tokens_left_out_age;
    }
    pending.call = std::move(call);
    return pending;
  }

  // In every group, or among the leaves of every trunk, prefers the best episode to the worst. Omits episodes that are
  // not in a pair.
  void Pair(std::vector<bool>& left_out) {
    std::map<std::pair<size_t, int32_t>, std::pair<int32_t, int32_t>> best_worst;  // by group and trunk
    const auto value = [&](int32_t e) {
      const Sample& sample = episodes_[static_cast<size_t>(e)];
      return groups_[sample.group].rows[sample.index].value;
    };
    for (int32_t e = 0; e < static_cast<int32_t>(episodes_.size()); ++e) {
      const Sample& sample = episodes_[static_cast<size_t>(e)];
      if (left_out[static_cast<size_t>(e)] || sample.loss_tokens == 0 || sample.trunk) continue;
      const int32_t trunk = groups_[sample.group].trunks[sample.index];
      auto& [best, worst] = best_worst.try_emplace({sample.group, trunk}, e, e).first->second;
      if (value(e) > value(best)) best = e;
      if (value(e) < value(worst)) worst = e;
    }
    std::vector<bool> paired(episodes_.size(), false);
    for (const auto& [siblings, pair] : best_worst) {
      if (value(pair.first) == value(pair.second)) continue;
      out_.preferences.push_back({pair.first, pair.second});
      paired[static_cast<size_t>(pair.first)] = paired[static_cast<size_t>(pair.second)] = true;
    }
    for (size_t e = 0; e < episodes_.size(); ++e) {
      if (!left_out[e] && !paired[e] && episodes_[e].loss_tokens > 0) ++counts_.episodes_unpaired;
      left_out[e] = left_out[e] || !paired[e];
    }
  }

  void AddCall(PendingCall pending) {
    const tree::CallPath& call = pending.call;
    for (size_t i = 0; i < call.versions.size(); ++i) {
      if (!pending.bears_loss.empty() && pending.bears_loss[i] == 0) continue;
      metrics_.AddToken(*records_[static_cast<size_t>(call.episode)], version_ - call.versions[i]);
      ++histogram_[version_ - call.versions[i]];
    }
    extents_.push_back({call.episode, call.group, pending.loss_tokens});
    out_.loss_tokens += pending.loss_tokens;
    out_.unmerged_tokens += call.size();
    out_.bears_loss.push_back(std::move(pending.bears_loss));
    out_.token_advantages.push_back(std::move(pending.token_advantages));
    out_.calls.push_back(std::move(pending.call));
  }

  std::string WhyEmpty() const {
    return absl::StrCat("the batch has no tokens to train on: ", counts_.episodes_left_out, " episodes excluded, ",
                        counts_.calls_left_out_weights, " calls to other models, ", counts_.calls_left_out_flagged,
                        " calls sampled with a penalty, bias, or grammar, ", counts_.calls_empty,
                        " without sampled tokens, ", counts_.calls_left_out_truncated,
                        " excluded by trainer.truncated, ", counts_.tokens_left_out_age,
                        " tokens older than train_segments allows, ", counts_.groups_filtered,
                        " groups without advantages, ", counts_.episodes_unpaired, " episodes without a pair");
  }

  void Report(const v1::FeedStats& feed) {
    StepMetrics& m = out_.metrics;
    // The reward before any filtering, over all episodes that finished while the batch was assembled, including dropped
    // groups.
    m["reward/mean"] = feed.reward_episodes() > 0 ? feed.reward_mean() : metrics_.reward_mean();
    const double equal = static_cast<double>(counts_.groups_equal) / static_cast<double>(groups_.size());
    m["reward/frac_zero_std"] = feed.dropped_fraction() + (1 - feed.dropped_fraction()) * equal;
    metrics_.Report(m);
    m["batch/episodes"] = static_cast<double>(std::ssize(episodes_) - counts_.trunks);
    m["batch/trunks"] = static_cast<double>(counts_.trunks);
    m["batch/calls"] = static_cast<double>(out_.calls.size());
    m["batch/loss_tokens"] = static_cast<double>(out_.loss_tokens);
    m["batch/episodes_ungraded"] = static_cast<double>(counts_.episodes_ungraded);
    m["batch/episodes_left_out"] = static_cast<double>(counts_.episodes_left_out);
    m["batch/calls_left_out_weights"] = static_cast<double>(counts_.calls_left_out_weights);
    m["batch/calls_left_out_flagged"] = static_cast<double>(counts_.calls_left_out_flagged);
    m["batch/calls_empty"] = static_cast<double>(counts_.calls_empty);
    if (options_.truncated != "train") {
      m["batch/calls_left_out_truncated"] = static_cast<double>(counts_.calls_left_out_truncated);
    }
    m["batch/tokens_left_out_age"] = static_cast<double>(counts_.tokens_left_out_age);
    m["batch/groups_filtered"] = static_cast<double>(counts_.groups_filtered);
    if (options_.objective == "dpo") {
      m["batch/pairs"] = static_cast<double>(out_.preferences.size());
      m["batch/episodes_unpaired"] = static_cast<double>(counts_.episodes_unpaired);
    }
    out_.staleness_histogram.assign(histogram_.begin(), histogram_.end());
  }

  const TrainerOptions& options_;
  const TokenLimits limits_;
  const int64_t version_;
  const int64_t oldest_trained_;
  PreparedBatch& out_;
  Counts counts_;
  std::vector<GroupRows> groups_;
  std::vector<int64_t> trunk_sampled_;      // tokens sampled by the last group's trunks
  std::vector<bool> has_token_advantages_;  // per entry of groups_
  std::vector<Sample> episodes_;
  std::vector<PendingCall> pending_;
  std::vector<CallExtent> extents_;          // per entry of out_.calls
  std::vector<const v1::Episode*> records_;  // the batch's records of episodes_
  EpisodeMetrics metrics_;
  std::map<int64_t, int64_t> histogram_;
};

// Returns the first error in a call's recorded routes; empty = none.
std::string RoutesFault(const tree::CallPath& call, const TokenLimits& limits) {
  if (call.routes.empty()) return "";
  const auto width = static_cast<size_t>(limits.routes_per_token),
             choice = static_cast<size_t>(limits.experts_per_token);
  if (call.routes.size() != width * call.sampled.size()) {
    return absl::StrCat("it has routes of ", call.routes.size(), " experts for ", call.sampled.size(),
                        " sampled tokens, but the model's layers need ", width, " for each");
  }
  for (size_t i = 0; i < call.routes.size(); i += choice) {
    const auto chosen = std::span(call.routes).subspan(i, choice);
    for (size_t k = 0; k < choice; ++k) {
      const bool again = std::find(chosen.begin(), chosen.begin() + static_cast<ptrdiff_t>(k), chosen[k]) !=
                         chosen.begin() + static_cast<ptrdiff_t>(k);
      if (chosen[k] < limits.experts && !again) continue;
      return absl::StrCat("the routes of sampled token ", i / width, " name expert ", chosen[k],
                          again ? " twice" : absl::StrCat(", of ", limits.experts));
    }
  }
  return "";
}

}  // namespace

absl::Status CheckCall(const tree::CallPath& call, const TokenLimits& limits, bool recorded) {
  const auto fault = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat("call ", call.call_id, ": ", what));
  };
  const int64_t total = call.size();
  if (call.context.empty()) return fault("it has no context: at least one token must precede the sampled tokens");
  const auto outside = [&](int32_t id) { return id < 0 || id >= limits.vocab_size; };
  const auto [least, greatest] = call.context.extremes();
  if (outside(least) || outside(greatest) || std::any_of(call.sampled.begin(), call.sampled.end(), outside)) {
    const std::vector<int32_t> tokens = call.Tokens();
    const auto found = std::find_if(tokens.begin(), tokens.end(), outside);
    return fault(absl::StrCat("token ", found - tokens.begin(), " has id ", *found, ", outside the vocabulary of ",
                              limits.vocab_size));
  }
  if (total > limits.max_tokens) {
    return fault(absl::StrCat("it has ", total, " tokens, but the model's context length is ", limits.max_tokens));
  }
  if (!(call.temperature > 0) || !std::isfinite(call.temperature)) {
    return fault(absl::StrCat("its temperature is ", call.temperature, "; training needs one above 0"));
  }
  if (!recorded) return absl::OkStatus();
  const size_t sampled = call.sampled.size();
  if (call.logprobs.size() != sampled || call.versions.size() != sampled || call.kv_mixed.size() != sampled) {
    return fault(absl::StrCat("it has ", sampled, " sampled tokens but ", call.logprobs.size(), " log-probs, ",
                              call.versions.size(), " versions and ", call.kv_mixed.size(), " cache flags"));
  }
  if (const std::string wrong = RoutesFault(call, limits); !wrong.empty()) return fault(wrong);
  for (size_t i = 0; i < sampled; ++i) {
    if (!std::isfinite(call.logprobs[i]) || call.logprobs[i] > kLogprobRounding) {
      return fault(absl::StrCat("the log-prob of sampled token ", i, " is ", call.logprobs[i]));
    }
    if (call.versions[i] < 0) return fault(absl::StrCat("sampled token ", i, " has version ", call.versions[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<PreparedBatch> PrepareBatch(const TrainBatch& batch, const TrainerOptions& options,
                                           const TokenLimits& limits, int64_t version) {
  if (options.groups_per_step > 0 && static_cast<int64_t>(batch.groups.size()) != options.groups_per_step) {
    return absl::InvalidArgumentError(absl::StrCat("batch ", batch.step, " has ", batch.groups.size(),
                                                   " groups, but groups_per_step is ", options.groups_per_step));
  }
  if (batch.groups.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("batch ", batch.step, " has no groups"));
  }
  PreparedBatch prepared;
  Collector collector(options, limits, version, prepared);
  for (const v1::Group& group : batch.groups) INGOT_RETURN_IF_ERROR(collector.AddGroup(group));
  collector.Finish(batch.feed);
  return prepared;
}

absl::StatusOr<PreparedBatch> PrepareSft(std::vector<tree::CallPath> calls, const TokenLimits& limits) {
  PreparedBatch prepared;
  std::vector<CallExtent> extents;
  for (tree::CallPath& call : calls) {
    INGOT_RETURN_IF_ERROR(CheckCall(call, limits, /*recorded=*/false));
    const int64_t tokens = std::ssize(call.sampled);
    if (tokens == 0) continue;
    extents.push_back({call.episode, call.group, tokens});
    prepared.episodes = std::max(prepared.episodes, call.episode + 1);
    prepared.loss_tokens += tokens;
    prepared.unmerged_tokens += call.size();
    // These tokens were not sampled, but merging needs the fields at full length.
    call.logprobs.assign(static_cast<size_t>(tokens), 0.0f);
    call.versions.assign(static_cast<size_t>(tokens), 0);
    call.kv_mixed.assign(static_cast<size_t>(tokens), 0);
    prepared.calls.push_back(std::move(call));
  }
  if (prepared.loss_tokens == 0) {
    return absl::FailedPreconditionError("the conversations have no assistant tokens: nothing to train on");
  }
  prepared.bears_loss.resize(prepared.calls.size());
  prepared.advantages.assign(prepared.calls.size(), 1.0);
  prepared.weights = TokenWeights(extents, "token");
  return prepared;
}

absl::StatusOr<PreparedBatch> PreparePairs(std::vector<tree::CallPath> calls, const TokenLimits& limits) {
  INGOT_ASSIGN_OR_RETURN(PreparedBatch prepared, PrepareSft(std::move(calls), limits));
  std::vector<std::string> present(static_cast<size_t>(prepared.episodes + prepared.episodes % 2));
  for (const tree::CallPath& call : prepared.calls) present[static_cast<size_t>(call.episode)] = call.call_id;
  for (size_t e = 0; e + 1 < present.size(); e += 2) {
    if (present[e].empty() && present[e + 1].empty()) continue;
    if (present[e].empty() || present[e + 1].empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(present[e].empty() ? present[e + 1] : present[e],
                       " cannot be compared: the other side of its pair has no assistant tokens"));
    }
    prepared.preferences.push_back({static_cast<int32_t>(e), static_cast<int32_t>(e + 1)});
  }
  return prepared;
}

}  // namespace ingot::trainer
