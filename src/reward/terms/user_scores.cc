#include "reward/terms/user_scores.h"

#include "base/json.h"
#include "base/printable.h"
#include "base/utf8.h"

namespace ingot::reward {
namespace {

using base::json::object;
using base::json::value;

constexpr size_t kShownAnswer = 200;  // bytes of an invalid answer in its error
constexpr size_t kMaxDetail = 4096;   // bytes; longer details are cut

// Parses JSON; returns null if it is invalid.
value Parsed(const std::string& json) {
  absl::StatusOr<value> parsed = base::ParseJson(json);
  return parsed.ok() ? *std::move(parsed) : value();
}

object JsonOf(const EpisodeFacts& episode) {
  const v1::Episode& record = episode.record();
  object signals, facts;
  for (const auto& [name, number] : record.signals()) signals[name] = number;
  for (const auto& [name, json] : record.facts()) facts[name] = Parsed(json);
  base::json::array calls;
  for (const CallFacts& call : episode.calls) {
    calls.push_back(object{{"call_id", call.id()},
                           {"turn", call.record->sequence()},
                           {"role", call.record->role()},
                           {"policy", call.policy},
                           {"sampled_tokens", call.sampled_tokens},
                           {"finish", v1::FinishReason_Name(call.record->finish())},
                           {"message", Parsed(call.record->delivered_json())}});
  }
  return object{{"episode_id", record.episode_id()},
                {"task_id", record.task().task_id()},
                {"task", Parsed(record.task().payload_json())},
                {"domain", record.task().domain()},
                {"scaffold", record.scaffold()},
                {"outcome", episode.outcome()},
                {"signals", std::move(signals)},
                {"facts", std::move(facts)},
                {"seconds", episode.seconds},
                {"calls", std::move(calls)}};
}

absl::Status Unusable(const std::string& scorer, const std::string& fault, const std::string& answer) {
  return absl::InvalidArgumentError(absl::StrCat(scorer, " answered ", fault, R"(; expected {"score": number}, got ")",
                                                 base::Printable(answer, {.max_bytes = kShownAnswer, .quoted = true}),
                                                 "\""));
}

// Returns the entries of an answer for a group of `episodes` episodes.
absl::StatusOr<base::json::array> EntriesIn(const std::string& answer, const std::string& scorer, size_t episodes) {
  const auto unusable = [&](const std::string& fault) {
    return absl::InvalidArgumentError(absl::StrCat(scorer, " answered ", fault, R"(; expected {"scores": [..]} with )",
                                                   episodes, " entries, one for each episode, got \"",
                                                   base::Printable(answer, {.max_bytes = kShownAnswer, .quoted = true}),
                                                   "\""));
  };
  const auto parsed = base::ParseJson(answer);
  if (!parsed.ok()) return unusable(absl::StrCat("text that is not JSON: ", parsed.status().message()));
  const value* scores = base::Find(*parsed, "scores");
  if (scores == nullptr || !scores->is_array()) return unusable("without a list 'scores'");
  const base::json::array& entries = scores->get_array();
  if (entries.size() == episodes) return entries;
  return unusable(absl::StrCat(entries.size(), " scores for ", episodes, " episodes"));
}

}  // namespace

std::string EpisodeJson(const EpisodeFacts& episode) { return base::PrintJson(JsonOf(episode)); }

std::string GroupJson(const GroupFacts& group) {
  base::json::array episodes;
  for (const EpisodeFacts& episode : group.episodes) episodes.push_back(JsonOf(episode));
  return base::PrintJson(object{{"group_id", group.group->group_id()}, {"episodes", std::move(episodes)}});
}

absl::StatusOr<TermResult> ScoreIn(const std::string& answer, const std::string& scorer, const EpisodeFacts& episode) {
  const auto parsed = base::ParseJson(answer);
  if (!parsed.ok()) return Unusable(scorer, absl::StrCat("text that is not JSON: ", parsed.status().message()), answer);
  const value* score = base::Find(*parsed, "score");
  if (score == nullptr || !score->is_number()) return Unusable(scorer, "without a number 'score'", answer);
  TermResult result;
  result.value = score->to_number<double>();
  if (const value* detail = base::Find(*parsed, "detail"); detail != nullptr && detail->is_string()) {
    const auto& text = detail->get_string();
    result.detail = base::CutText({text.data(), text.size()}, kMaxDetail);
  }
  const value* calls = base::Find(*parsed, "calls");
  if (calls == nullptr || calls->is_null()) return result;
  if (!calls->is_object()) return Unusable(scorer, "'calls' that is not an object", answer);
  for (const auto& [id, earned] : calls->get_object()) {
    const bool known = std::any_of(episode.calls.begin(), episode.calls.end(),
                                   [id = std::string(id)](const auto& call) { return call.policy && call.id() == id; });
    if (!known) return Unusable(scorer, "'calls' with an id that is not a call of the policy", answer);
    if (!earned.is_number()) return Unusable(scorer, "'calls' with a value that is not a number", answer);
    result.calls[std::string(id)] = earned.to_number<double>();
  }
  return result;
}

std::vector<absl::StatusOr<TermResult>> ScoresIn(const absl::StatusOr<std::string>& answer, const std::string& scorer,
                                                 const GroupFacts& group) {
  const absl::StatusOr<base::json::array> entries =
      answer.ok() ? EntriesIn(*answer, scorer, group.episodes.size()) : answer.status();
  std::vector<absl::StatusOr<TermResult>> results(group.episodes.size(), TermResult());
  for (size_t i = 0; i < results.size(); ++i) {
    if (!entries.ok()) {
      results[i] = entries.status();
      continue;
    }
    const value& entry = (*entries)[i];
    const value single = entry.is_number() ? value(object{{"score", entry}}) : entry;
    results[i] = ScoreIn(base::PrintJson(single), scorer, group.episodes[i]);
  }
  return results;
}

}  // namespace ingot::reward
