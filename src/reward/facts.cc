#include "reward/facts.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "base/task_domain.h"
#include "tree/episode_time.h"

namespace ingot::reward {
namespace {

// Returns the nanoseconds in the episode when at least one call waited for its first token and no call ran.
int64_t WaitedNanos(const v1::EpisodeTree& tree) {
  // Sweeps over the start and end times of waiting and running calls. Waiting counts only while nothing runs.
  std::vector<std::pair<int64_t, std::pair<int, int>>> borders;  // (time, (change in waiting, change in running))
  for (const v1::Call& call : tree.calls()) {
    const v1::CallTimes& times = call.times();
    if (times.arrival_unix_ns() == 0 || times.first_token_unix_ns() < times.arrival_unix_ns()) continue;
    borders.push_back({times.arrival_unix_ns(), {1, 0}});
    borders.push_back({times.first_token_unix_ns(), {-1, 1}});
    borders.push_back({std::max(times.end_unix_ns(), times.first_token_unix_ns()), {0, -1}});
  }
  std::sort(borders.begin(), borders.end());
  int64_t waited = 0, since = 0;
  int waiting = 0, running = 0;
  for (const auto& [time, change] : borders) {
    if (waiting > 0 && running == 0) waited += time - since;
    since = time;
    waiting += change.first;
    running += change.second;
  }
  return waited;
}

absl::StatusOr<int64_t> SampledTokens(const v1::EpisodeTree& tree, const v1::Call& call) {
  int64_t tokens = 0;
  for (const std::string& key : call.sampled_keys()) {
    const auto segment = tree.segments().find(absl::BytesToHexString(key));
    if (segment == tree.segments().end()) {
      return absl::DataLossError(absl::StrCat("call ", call.call_id(), " refers to the segment ",
                                              absl::BytesToHexString(key), ", which is missing from its group"));
    }
    tokens += segment->second.token_ids_size();
  }
  return tokens;
}

bool IsPolicys(const v1::Call& call, const v1::Episode& episode, const std::set<std::string>& other_models) {
  if (episode.purpose() == v1::PURPOSE_EVAL) return !other_models.contains(call.model());
  return call.weights() == v1::WEIGHTS_FOLLOW;
}

absl::StatusOr<EpisodeFacts> FactsOf(const v1::EpisodeTree& tree, const std::set<std::string>& other_models) {
  EpisodeFacts facts;
  facts.tree = &tree;
  for (const v1::Call& call : tree.calls()) {
    CallFacts of_call;
    of_call.record = &call;
    INGOT_ASSIGN_OR_RETURN(of_call.sampled_tokens, SampledTokens(tree, call));
    of_call.prompt_tokens = call.context_tokens();
    of_call.policy = IsPolicys(call, tree.episode(), other_models);
    if (of_call.policy) facts.sampled_tokens += of_call.sampled_tokens;
    facts.calls.push_back(of_call);
  }
  facts.seconds = std::max(0.0, tree::SecondsOf(tree.episode()) - static_cast<double>(WaitedNanos(tree)) * 1e-9);
  return facts;
}

}  // namespace

double EpisodeFacts::Signal(const std::string& name, double absent) const {
  const auto found = record().signals().find(name);
  return found == record().signals().end() ? absent : found->second;
}

int64_t EpisodeFacts::policy_calls() const {
  return std::count_if(calls.begin(), calls.end(), [](const CallFacts& call) { return call.policy; });
}

absl::StatusOr<std::optional<base::json::value>> EpisodeFacts::Fact(const std::string& name) const {
  const auto found = record().facts().find(name);
  if (found == record().facts().end()) return std::nullopt;
  absl::StatusOr<base::json::value> fact = base::ParseJson(found->second);
  if (!fact.ok()) return absl::InvalidArgumentError(absl::StrCat("fact '", name, "': ", fact.status().message()));
  return *std::move(fact);
}

std::optional<double> GroupFacts::Measured(const std::string& term, const std::string& measure) const {
  const auto of_term = history.find(term);
  if (of_term == history.end()) return std::nullopt;
  const auto found = of_term->second.find(measure);
  return found == of_term->second.end() ? std::nullopt : std::optional(found->second);
}

std::string GroupFacts::domain() const { return base::DomainOf(group->task().domain()); }

absl::StatusOr<GroupFacts> FactsOf(const v1::Group& group, int64_t version, int64_t total_steps,
                                   const std::set<std::string>& other_models) {
  GroupFacts facts;
  facts.group = &group;
  facts.version = version;
  facts.total_steps = std::max<int64_t>(total_steps, 1);
  for (const v1::EpisodeTree& tree : group.episodes()) {
    if (tree.episode().state() != v1::EPISODE_FINISHED) continue;
    absl::StatusOr<EpisodeFacts> episode = FactsOf(tree, other_models);
    if (!episode.ok()) return base::Annotate(episode.status(), "episode " + tree.episode().episode_id());
    facts.episodes.push_back(*std::move(episode));
  }
  return facts;
}

std::vector<int32_t> SampledIds(const v1::EpisodeTree& tree, const v1::Call& call) {
  std::vector<int32_t> ids;
  for (const std::string& key : call.sampled_keys()) {
    const v1::Segment& segment = tree.segments().at(absl::BytesToHexString(key));
    ids.insert(ids.end(), segment.token_ids().begin(), segment.token_ids().end());
  }
  return ids;
}

}  // namespace ingot::reward
