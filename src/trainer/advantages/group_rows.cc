#include "trainer/advantages/group_rows.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "base/checksum.h"
#include "tree/episode_return.h"
#include "tree/reward_bounds.h"
#include "tree/roles.h"

namespace ingot::trainer {
namespace {

// Returns the rewards for an episode's calls, one per turn. `rewards` is by call id.
absl::StatusOr<std::vector<double>> TurnRewards(const v1::EpisodeTree& tree,
                                                const google::protobuf::Map<std::string, double>& rewards) {
  std::vector<double> turns(static_cast<size_t>(tree.calls_size()), 0.0);
  int64_t found = 0;
  for (int t = 0; t < tree.calls_size(); ++t) {
    const auto it = rewards.find(tree.calls(t).call_id());
    if (it == rewards.end()) continue;
    if (!std::isfinite(it->second)) {
      return absl::InvalidArgumentError(absl::StrCat("the reward of call ", it->first, " is not a finite number"));
    }
    turns[static_cast<size_t>(t)] = it->second;
    ++found;
  }
  if (found != static_cast<int64_t>(rewards.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("call_rewards has ", rewards.size(), " calls, but the episode has ", found));
  }
  return turns;
}

// Returns the number of tokens that the call sampled from weights that follow the run.
int64_t SampledTokens(const v1::EpisodeTree& tree, const v1::Call& call) {
  int64_t tokens = 0;
  if (call.weights() != v1::WEIGHTS_FOLLOW) return tokens;
  for (const std::string& key : call.sampled_keys()) {
    const auto segment = tree.segments().find(base::Hex(key));
    if (segment != tree.segments().end()) tokens += segment->second.token_ids_size();
  }
  return tokens;
}
int64_t SampledTokens(const v1::EpisodeTree& tree) {
  int64_t tokens = 0;
  for (const v1::Call& call : tree.calls()) tokens += SampledTokens(tree, call);
  return tokens;
}

class Planner {
 public:
  Planner(const v1::Group& group, const RowRule& rule) : group_(group), rule_(rule) {
    for (const v1::EpisodeTree& tree : group.episodes()) graded_ = graded_ || tree.episode().has_grade();
  }

  absl::StatusOr<TrainedGroup> Plan() {
    INGOT_RETURN_IF_ERROR(AddTrunks());
    for (int i = 0; i < group_.episodes_size(); ++i) {
      const v1::Episode& episode = group_.episodes(i).episode();
      if (trunks_.contains(episode.episode_id())) continue;
      if (episode.state() != v1::EPISODE_FINISHED || episode.purpose() != v1::PURPOSE_TRAIN ||
          LeftALostTrunk(episode)) {
        ++out_.left_out;
      } else if (graded_ && !episode.has_grade()) {
        ++out_.ungraded;  // it is not part of the group
      } else {
        INGOT_RETURN_IF_ERROR(Annotated(AddRow(i), episode));
      }
    }
    DropTrunksWithoutLeaves();
    return std::move(out_);
  }

 private:
  struct Trunk {
    size_t index = 0;  // index in GroupRows::trunk_turns
    std::vector<double> turns;
    int64_t tokens = 0;
  };

  absl::Status Annotated(const absl::Status& status, const v1::Episode& episode) const {
    return base::Annotate(status, absl::StrCat("group ", group_.group_id(), ", episode ", episode.episode_id()));
  }

  absl::Status AddTrunks() {
    for (int i = 0; i < group_.episodes_size(); ++i) {
      const v1::EpisodeTree& tree = group_.episodes(i);
      if (tree.episode().state() != v1::EPISODE_FORKED || tree.episode().purpose() != v1::PURPOSE_TRAIN) continue;
      Trunk trunk{out_.rows.trunk_turns.size(), {}, SampledTokens(tree)};
      // A grade replaces the posted reward, and a trunk has no grade.
      auto turns =
          TurnRewards(tree, graded_ ? google::protobuf::Map<std::string, double>() : tree.episode().call_rewards());
      INGOT_RETURN_IF_ERROR(Annotated(turns.status(), tree.episode()));
      trunk.turns = *std::move(turns);
      CheckBounds(tree.episode(), 0, tree.episode().call_rewards());
      out_.rows.trunk_turns.push_back(trunk.turns.size());
      out_.parts.push_back({i, true, trunk.index});
      trunks_[tree.episode().episode_id()] = std::move(trunk);
    }
    return absl::OkStatus();
  }

  // Returns whether the episode started from an older attempt of its trunk than the newest one.
  bool LeftALostTrunk(const v1::Episode& episode) const {
    const std::string& trunk = episode.fork().episode_id();
    return !trunk.empty() &&
           std::none_of(group_.episodes().begin(), group_.episodes().end(),
                        [&](const v1::EpisodeTree& tree) { return tree.episode().episode_id() == trunk; });
  }

  absl::Status AddRow(int index) {
    const v1::EpisodeTree& tree = group_.episodes(index);
    const v1::Episode& episode = tree.episode();
    const double reward = tree::RewardOf(episode);
    if (!std::isfinite(reward)) return absl::InvalidArgumentError("its reward is not a finite number");
    INGOT_ASSIGN_OR_RETURN(std::vector<double> turns, TurnRewards(tree, tree::CallRewardsOf(episode)));
    CheckBounds(episode, reward, tree::CallRewardsOf(episode));
    // A trunk that continued is a normal sample, and the episode is compared with it.
    const auto trunk = trunks_.find(episode.fork().episode_id());
    if (rule_.by_role && trunk != trunks_.end()) {
      return absl::InvalidArgumentError(
          "it branches from a trunk, whose turns cannot be credited to a role: set trainer.advantage_groups to episode "
          "for branching groups");
    }
    if (rule_.by_role) AddRoles(tree, reward, turns);
    if (trunk != trunks_.end()) turns.insert(turns.begin(), trunk->second.turns.begin(), trunk->second.turns.end());
    out_.parts.push_back({index, false, out_.rows.rows.size()});
    out_.rows.rows.push_back(CreditTurns(reward, turns, rule_.credit, rule_.discount));
    out_.rows.rows.back().tokens = SampledTokens(tree) + (trunk == trunks_.end() ? 0 : trunk->second.tokens);
    if (rule_.by_terms) {
      const size_t shared = trunk == trunks_.end() ? 0 : trunk->second.turns.size();
      INGOT_RETURN_IF_ERROR(AddTerms(tree, shared, out_.rows.rows.back()));
    }
    out_.rows.trunks.push_back(trunk == trunks_.end() ? -1 : static_cast<int32_t>(trunk->second.index));
    return absl::OkStatus();
  }

  // Adds the terms in the episode's grade to its row. `shared` is the number of turns in its trunk, which earn nothing
  // in a graded group.
  absl::Status AddTerms(const v1::EpisodeTree& tree, size_t shared, EpisodeReturn& row) {
    if (!graded_) {
      row.terms.push_back({1, row.value, row.credits});
      return absl::OkStatus();
    }
    const v1::Grade& grade = tree.episode().grade();
    if (first_grade_ == nullptr) first_grade_ = &grade;
    const bool same = std::equal(
        grade.terms().begin(), grade.terms().end(), first_grade_->terms().begin(), first_grade_->terms().end(),
        [](const auto& a, const auto& b) { return a.term() == b.term() && a.weight() == b.weight(); });
    if (!same)
      return absl::InvalidArgumentError("its terms or their weights differ from those of the group's first grade");
    for (const v1::TermValue& term : grade.terms()) {
      if (!std::isfinite(term.value()) || !std::isfinite(term.weight())) {
        return absl::InvalidArgumentError(
            absl::StrCat("term '", term.term(), "' has a value that is not a finite number"));
      }
      NoteFault(tree.episode(), absl::StrCat("the value of term '", term.term(), "'"), term.value());
      INGOT_ASSIGN_OR_RETURN(std::vector<double> turns, TurnRewards(tree, term.calls()));
      turns.insert(turns.begin(), shared, 0.0);
      EpisodeReturn of_term = CreditTurns(term.value(), turns, rule_.credit, rule_.discount);
      row.terms.push_back({term.weight(), of_term.value, std::move(of_term.credits)});
    }
    return absl::OkStatus();
  }

  // `turns` are the rewards for the episode's calls.
  void AddRoles(const v1::EpisodeTree& tree, double reward, const std::vector<double>& turns) {
    std::vector<RoleReturn>& roles = out_.rows.roles.emplace_back();
    for (const auto& [name, of_role] : tree::TurnsByRole(tree)) {
      RoleReturn role;
      role.role = name;
      std::vector<double> rewards;
      int64_t tokens = 0;
      for (const int t : of_role) {
        role.turns.push_back(static_cast<size_t>(t));
        rewards.push_back(turns[static_cast<size_t>(t)]);
        tokens += SampledTokens(tree, tree.calls(t));
      }
      role.earned = CreditTurns(reward, rewards, rule_.credit, rule_.discount);
      role.earned.tokens = tokens;
      roles.push_back(std::move(role));
    }
  }

  void DropTrunksWithoutLeaves() {
    const auto& leaves = out_.rows.trunks;
    const auto lone = [&](const TrainedGroup::Part& part) {
      return part.trunk && std::find(leaves.begin(), leaves.end(), static_cast<int32_t>(part.index)) == leaves.end();
    };
    out_.left_out += std::erase_if(out_.parts, lone);
  }

  // Records an out-of-bounds reward, which may overflow a group's statistics and give a zero or non-finite gradient.
  void CheckBounds(const v1::Episode& episode, double reward,
                   const google::protobuf::Map<std::string, double>& of_calls) {
    NoteFault(episode, "its reward", reward);
    for (const auto& [call, earned] : of_calls) NoteFault(episode, absl::StrCat("the reward of call ", call), earned);
  }
  void NoteFault(const v1::Episode& episode, const std::string& subject, double reward) {
    const std::string fault = tree::RewardFault(reward);
    if (fault.empty() || !out_.reward_fault.empty()) return;
    out_.reward_fault =
        absl::StrCat("group ", episode.ref().group_id(), ", episode ", episode.episode_id(), ": ", subject, " ", fault);
  }

  const v1::Group& group_;
  const RowRule& rule_;
  bool graded_ = false;
  const v1::Grade* first_grade_ = nullptr;    // grade of the first row; used with `by_terms`
  std::map<std::string_view, Trunk> trunks_;  // by episode id
  TrainedGroup out_;
};

}  // namespace

RowRule RowRule::Of(const TrainerOptions& options) {
  return {.credit = options.advantage_credit,
          .discount = options.turn_discount,
          .by_terms = options.by_terms(),
          .by_role = options.by_role()};
}

absl::StatusOr<TrainedGroup> RowsOf(const v1::Group& group, const RowRule& rule) { return Planner(group, rule).Plan(); }

}  // namespace ingot::trainer
