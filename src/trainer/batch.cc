#include "trainer/batch.h"

#include <cmath>
#include <map>
#include <string>
#include <unordered_map>

#include "trainer/advantage.h"

namespace ingot::trainer {
namespace {

// Log-probs come from a log-softmax in fp32, whose rounding may leave a certain token a hair above 0.
constexpr float kLogprobRounding = 1e-4f;

bool Trainable(const v1::EpisodeTree& tree) {
  return tree.episode().state() == v1::EPISODE_FINISHED && tree.episode().purpose() == v1::PURPOSE_TRAIN;
}

bool Flagged(const v1::Call& call) {
  const v1::SamplingParams& sampling = call.sampling();
  return sampling.penalty_acted() || sampling.bias_acted() || sampling.grammar_acted();
}

struct Counts {
  int64_t episodes_left_out = 0;
  int64_t calls_left_out_weights = 0;
  int64_t calls_left_out_flagged = 0;
  int64_t calls_empty = 0;  // nothing was sampled for them
  std::map<std::string, MeanMax> reward_by;
  MeanMax reward, response_length, num_turns;
};

// One group's flattened calls go to `out`, with the index of their episode among all episodes of the batch.
class Collector {
 public:
  Collector(const TrainerOptions& options, const TokenLimits& limits, int64_t version, PreparedBatch& out)
      : options_(options), limits_(limits), version_(version), out_(out) {}

  absl::Status AddGroup(const v1::Group& group) {
    std::vector<double> rewards;
    for (const v1::EpisodeTree& tree : group.episodes()) {
      if (!Trainable(tree)) {
        ++counts_.episodes_left_out;
        continue;
      }
      INGOT_RETURN_IF_ERROR(
          base::Annotate(AddEpisode(tree, static_cast<int32_t>(rewards_.size())),
                         absl::StrCat("group ", group.group_id(), ", episode ", tree.episode().episode_id())));
      rewards.push_back(tree.episode().reward());
    }
    if (options_.group_size > 0 && static_cast<int64_t>(rewards.size()) != options_.group_size) {
      return absl::InvalidArgumentError(absl::StrCat("group ", group.group_id(), " holds ", rewards.size(),
                                                     " finished samples where group_size is ", options_.group_size));
    }
    rewards_.push_back(std::move(rewards));
    return absl::OkStatus();
  }

  absl::Status Finish(const v1::FeedStats& feed) {
    if (out_.loss_tokens == 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "no token of the batch bears loss: ", counts_.episodes_left_out, " episodes left out, ",
          counts_.calls_left_out_weights, " calls on other weights, ", counts_.calls_left_out_flagged,
          " calls sampled under a penalty, bias or grammar, ", counts_.calls_empty, " without sampled tokens"));
    }
    const auto advantages = Advantages(rewards_, options_.advantage_baseline, options_.advantage_normalization);
    std::vector<double> by_episode;
    for (const auto& group : advantages) by_episode.insert(by_episode.end(), group.begin(), group.end());
    std::vector<CallExtent> extents;
    for (const tree::FlatCall& call : out_.calls) {
      out_.advantages.push_back(by_episode[static_cast<size_t>(call.episode)]);
      extents.push_back({call.episode, call.group, static_cast<int64_t>(call.tokens.size()) - call.context_tokens});
    }
    out_.weights = TokenWeights(extents, options_.loss_aggregation);
    Report(feed);
    return absl::OkStatus();
  }

 private:
  absl::Status AddEpisode(const v1::EpisodeTree& tree, int32_t group) {
    const v1::Episode& episode = tree.episode();
    if (!std::isfinite(episode.reward())) {
      return absl::InvalidArgumentError("its reward is not a finite number");
    }
    std::unordered_map<std::string, const v1::Call*> by_id;
    for (const v1::Call& call : tree.calls()) by_id[call.call_id()] = &call;
    INGOT_ASSIGN_OR_RETURN(std::vector<tree::FlatCall> flat, tree::FlattenCalls(tree, episodes_, group));
    int64_t sampled = 0;
    for (tree::FlatCall& call : flat) {
      const auto it = by_id.find(call.call_id);
      if (it != by_id.end() && it->second->weights() != v1::WEIGHTS_FOLLOW) {
        ++counts_.calls_left_out_weights;
        continue;
      }
      if (it != by_id.end() && Flagged(*it->second)) {
        ++counts_.calls_left_out_flagged;
        continue;
      }
      const int64_t tokens = static_cast<int64_t>(call.tokens.size()) - call.context_tokens;
      if (tokens == 0) {
        ++counts_.calls_empty;
        continue;
      }
      INGOT_RETURN_IF_ERROR(CheckCall(call, limits_, /*recorded=*/true));
      INGOT_RETURN_IF_ERROR(AddAges(call));
      sampled += tokens;
      out_.loss_tokens += tokens;
      out_.unmerged_tokens += static_cast<int64_t>(call.tokens.size());
      out_.calls.push_back(std::move(call));
    }
    ++episodes_;
    counts_.reward.Add(episode.reward());
    counts_.response_length.Add(static_cast<double>(sampled));
    counts_.num_turns.Add(static_cast<double>(tree.calls_size()));
    const std::string& domain = episode.task().domain();
    counts_.reward_by["domain:" + (domain.empty() ? "default" : domain)].Add(episode.reward());
    counts_.reward_by["scaffold:" + (episode.scaffold().empty() ? "default" : episode.scaffold())].Add(
        episode.reward());
    return absl::OkStatus();
  }

  absl::Status AddAges(const tree::FlatCall& call) {
    for (const int64_t sampled_at : call.versions) {
      if (sampled_at > version_) {
        return absl::InvalidArgumentError(absl::StrCat("call ", call.call_id, " was sampled at version ", sampled_at,
                                                       ", newer than the trainer's ", version_,
                                                       ": it belongs to another run or a later step"));
      }
      ages_.Add(static_cast<double>(version_ - sampled_at));
      ++histogram_[version_ - sampled_at];
    }
    return absl::OkStatus();
  }

  void Report(const v1::FeedStats& feed) {
    StepMetrics& m = out_.metrics;
    // Over everything that finished while the batch was assembled, dropped groups included: what the policy earns, not
    // what the filter lets through.
    m["reward/mean"] = feed.reward_episodes() > 0 ? feed.reward_mean() : counts_.reward.mean();
    m["reward/frac_zero_std"] = feed.dropped_fraction();
    m["reward/batch_mean"] = counts_.reward.mean();
    std::map<std::string, int> kinds;
    for (const auto& [key, value] : counts_.reward_by) ++kinds[key.substr(0, key.find(':'))];
    for (const auto& [key, value] : counts_.reward_by) {
      if (kinds[key.substr(0, key.find(':'))] > 1) m["reward/batch_mean@" + key] = value.mean();
    }
    m["response_length/mean"] = counts_.response_length.mean();
    m["response_length/max"] = counts_.response_length.max;
    m["num_turns/mean"] = counts_.num_turns.mean();
    m["num_turns/max"] = counts_.num_turns.max;
    m["async/staleness_mean"] = ages_.mean();
    m["async/staleness_max"] = ages_.max;
    m["batch/episodes"] = static_cast<double>(episodes_);
    m["batch/calls"] = static_cast<double>(out_.calls.size());
    m["batch/loss_tokens"] = static_cast<double>(out_.loss_tokens);
    m["batch/episodes_left_out"] = static_cast<double>(counts_.episodes_left_out);
    m["batch/calls_left_out_weights"] = static_cast<double>(counts_.calls_left_out_weights);
    m["batch/calls_left_out_flagged"] = static_cast<double>(counts_.calls_left_out_flagged);
    m["batch/calls_empty"] = static_cast<double>(counts_.calls_empty);
    out_.staleness_histogram.assign(histogram_.begin(), histogram_.end());
  }

  const TrainerOptions& options_;
  const TokenLimits limits_;
  const int64_t version_;
  PreparedBatch& out_;
  Counts counts_;
  int32_t episodes_ = 0;
  std::vector<std::vector<double>> rewards_;
  MeanMax ages_;
  std::map<int64_t, int64_t> histogram_;
};

}  // namespace

absl::Status CheckCall(const tree::FlatCall& call, const TokenLimits& limits, bool recorded) {
  const auto fault = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat("call ", call.call_id, ": ", what));
  };
  const int64_t total = static_cast<int64_t>(call.tokens.size());
  if (call.context_tokens < 1 || call.context_tokens > total) {
    return fault(absl::StrCat(call.context_tokens, " context tokens of ", total, ": at least one must come first"));
  }
  for (int64_t i = 0; i < total; ++i) {
    const int32_t id = call.tokens[static_cast<size_t>(i)];
    if (id < 0 || id >= limits.vocab_size) {
      return fault(absl::StrCat("token ", i, " has id ", id, ", outside the vocabulary of ", limits.vocab_size));
    }
  }
  if (total > limits.max_tokens) {
    return fault(absl::StrCat("it has ", total, " tokens, the model's context length is ", limits.max_tokens));
  }
  if (!(call.temperature > 0) || !std::isfinite(call.temperature)) {
    return fault(absl::StrCat("its temperature is ", call.temperature, "; what is trained on needs one above 0"));
  }
  if (!recorded) return absl::OkStatus();
  const size_t sampled = static_cast<size_t>(total - call.context_tokens);
  if (call.logprobs.size() != sampled || call.versions.size() != sampled || call.kv_mixed.size() != sampled) {
    return fault(absl::StrCat("it has ", sampled, " sampled tokens but ", call.logprobs.size(), " log-probs, ",
                              call.versions.size(), " versions and ", call.kv_mixed.size(), " cache flags"));
  }
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
    return absl::InvalidArgumentError(absl::StrCat("batch ", batch.step, " holds ", batch.groups.size(),
                                                   " groups where groups_per_step is ", options.groups_per_step));
  }
  PreparedBatch prepared;
  Collector collector(options, limits, version, prepared);
  for (const v1::Group& group : batch.groups) INGOT_RETURN_IF_ERROR(collector.AddGroup(group));
  INGOT_RETURN_IF_ERROR(collector.Finish(batch.feed));
  return prepared;
}

absl::StatusOr<PreparedBatch> PrepareSft(std::vector<tree::FlatCall> calls, const TokenLimits& limits) {
  PreparedBatch prepared;
  std::vector<CallExtent> extents;
  for (tree::FlatCall& call : calls) {
    INGOT_RETURN_IF_ERROR(CheckCall(call, limits, /*recorded=*/false));
    const int64_t tokens = static_cast<int64_t>(call.tokens.size()) - call.context_tokens;
    if (tokens == 0) continue;
    extents.push_back({call.episode, call.group, tokens});
    prepared.loss_tokens += tokens;
    prepared.unmerged_tokens += static_cast<int64_t>(call.tokens.size());
    // Nobody sampled these tokens; merging wants the fields whole.
    call.logprobs.assign(static_cast<size_t>(tokens), 0.0f);
    call.versions.assign(static_cast<size_t>(tokens), 0);
    call.kv_mixed.assign(static_cast<size_t>(tokens), 0);
    prepared.calls.push_back(std::move(call));
  }
  if (prepared.loss_tokens == 0) {
    return absl::FailedPreconditionError("no token of the conversations is an assistant's: nothing to train on");
  }
  prepared.advantages.assign(prepared.calls.size(), 1.0);
  prepared.weights = TokenWeights(extents, "token");
  return prepared;
}

}  // namespace ingot::trainer
