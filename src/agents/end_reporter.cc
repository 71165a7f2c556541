#include "agents/end_reporter.h"

#include "absl/strings/str_join.h"
#include "agents/failure_causes.h"
#include "base/retry.h"
#include "base/utf8.h"

namespace ingot::agents {
namespace {

constexpr char kEndTaker[] = "a gateway that accepts the end of an episode";

const std::string& OwnersKey(const v1::EpisodeOpenResponse& episode) {
  return episode.owner_key().empty() ? episode.api_key() : episode.owner_key();
}

}  // namespace

absl::Status EndReporter::Report(const v1::EpisodeOpenResponse& episode, EpisodeReport& report) {
  absl::Status ended;
  if (report.fork != nullptr) {
    ended = End(episode, v1::EPISODE_FORKED, "").status();
    if (ended.ok()) return ended;
    report.fork = nullptr;
    report.cause = base::IsTransientOrMoved(ended) && retry_.stopped() ? kStopped : "gateway";
    report.detail = absl::StrCat("the gateway did not accept the fork: ", ended.message());
  } else if (report.cause.empty()) {
    // Without a judgment here, the agent posted its own reward, which must be kept.
    const bool verdict = report.has_reward && !report.by_default;
    const absl::Status posted = verdict ? Post(episode, report.reward, report.signals, report.facts) : absl::OkStatus();
    if (posted.ok()) ended = Finish(episode, report);
    if (posted.ok() && ended.ok()) return ended;
    const absl::Status& rejected = posted.ok() ? ended : posted;
    report.cause = base::IsTransientOrMoved(rejected) && retry_.stopped() ? kStopped : "gateway";
    report.detail =
        absl::StrCat("the gateway did not accept the ", posted.ok() ? "end" : "reward", ": ", rejected.message());
  }
  if (ended.ok() ||
      !base::IsTransientOrMoved(ended)) {  // after a transient error, the gateway may have accepted the end
    const v1::EpisodeState state = report.cause == kStopped  ? v1::EPISODE_FENCED
                                   : IsOfSetup(report.cause) ? v1::EPISODE_INFRASTRUCTURE_FAILED
                                                             : v1::EPISODE_FAILED;
    const auto failed = End(episode, state, absl::StrCat(report.cause, ": ", report.detail), report.cause);
    if (failed.ok() && !failed->last_rejection().empty()) {
      absl::StrAppend(&report.detail, "; the gateway's last rejection: ", failed->last_rejection());
    }
    ended = failed.status();
  }
  return ended;
}

absl::Status EndReporter::Post(const v1::EpisodeOpenResponse& episode, double earned,
                               const std::map<std::string, double>& signals,
                               const std::map<std::string, std::string>& facts) {
  v1::EpisodeRewardRequest reward;
  reward.set_episode_id(episode.episode_id());
  reward.set_api_key(OwnersKey(episode));
  reward.set_reward(earned);
  for (const auto& [name, value] : signals) (*reward.mutable_signals())[name] = value;
  for (const auto& [name, json] : facts) (*reward.mutable_facts())[name] = json;
  return retry_.Persist(kEndTaker, [&] { return episodes_.Reward(reward); });
}

absl::StatusOr<std::string> EndReporter::Messages(const v1::EpisodeOpenResponse& episode) {
  v1::ReadMessagesRequest request;
  request.set_episode_id(episode.episode_id());
  request.set_api_key(OwnersKey(episode));
  absl::StatusOr<v1::ReadMessagesResponse> read;
  INGOT_RETURN_IF_ERROR(retry_.Persist("the messages of an episode", [&] {
    read = episodes_.ReadMessages(request);
    return read.status();
  }));
  return absl::StrCat("[", absl::StrJoin(read->messages_json(), ","), "]");
}

absl::Status EndReporter::Finish(const v1::EpisodeOpenResponse& episode, const EpisodeReport& report) {
  if (report.has_reward && !report.by_default) return End(episode, v1::EPISODE_FINISHED, report.detail).status();
  v1::DefaultOutcome outcome;
  outcome.mutable_signals()->insert(report.signals.begin(), report.signals.end());
  outcome.mutable_facts()->insert(report.facts.begin(), report.facts.end());
  outcome.set_detail(base::ToUtf8(report.detail));
  if (!report.has_reward) {  // the agent should have posted one, so this is its own fault, like a missing answer
    (*outcome.mutable_signals())["answer_malformed"] = 1;
    outcome.set_detail("the agent has posted no reward");
  }
  return End(episode, v1::EPISODE_FINISHED, report.detail, "", &outcome).status();
}

absl::StatusOr<v1::EpisodeEndResponse> EndReporter::End(const v1::EpisodeOpenResponse& episode, v1::EpisodeState state,
                                                        const std::string& detail, const std::string& cause,
                                                        const v1::DefaultOutcome* unless_rewarded) {
  v1::EpisodeEndRequest request;
  request.set_episode_id(episode.episode_id());
  request.set_api_key(OwnersKey(episode));
  request.set_state(state);
  request.set_detail(base::ToUtf8(detail));
  request.set_cause(cause);
  if (unless_rewarded != nullptr) *request.mutable_unless_rewarded() = *unless_rewarded;
  absl::StatusOr<v1::EpisodeEndResponse> ended;
  INGOT_RETURN_IF_ERROR(retry_.Persist(kEndTaker, [&] {
    ended = episodes_.End(request);
    return ended.status();
  }));
  return ended;
}

}  // namespace ingot::agents
