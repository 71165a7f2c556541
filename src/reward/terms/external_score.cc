#include "reward/terms/external_score.h"

#include "base/config.h"
#include "base/retry.h"
#include "reward/parallel.h"
#include "reward/terms/user_scores.h"

namespace ingot::reward {
absl::Status ExternalOptions::Validate() const {
  if (url.starts_with("http://") || url.starts_with("https://")) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("external.url is '", url, "': it must begin with http:// or https://"));
}

void Bind(base::Schema& schema, ExternalOptions& o) {
  schema.Field("url", &o.url, "URL of the server that scores episodes");
  schema.Field("group", &o.group, "send one request per group, which returns a list of scores");
  schema.Field("timeout_s", &o.timeout_s, "timeout of one request, in seconds", base::LeftOpen(0, 86400));
  schema.Field("tries", &o.tries, "maximum number of attempts to get a score for an episode or group",
               base::AtLeast(1));
  schema.Field("concurrency", &o.concurrency, "maximum number of concurrent requests per group", base::AtLeast(1));
}

absl::StatusOr<std::string> ExternalTerm::Ask(const std::string& json) const {
  absl::StatusOr<std::string> answer = absl::UnavailableError("not asked");
  for (int i = 0; i < options_.tries && !answer.ok(); ++i) {
    answer = scorer_->Post(options_.url, json, options_.timeout_s);
    if (!base::MayAnswerLater(answer.status())) break;
  }
  return answer;
}

absl::StatusOr<TermResult> ExternalTerm::ScoreOf(const EpisodeFacts& episode) const {
  INGOT_ASSIGN_OR_RETURN(const std::string answer, Ask(EpisodeJson(episode)));
  return ScoreIn(answer, options_.url, episode);
}

absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> ExternalTerm::Judge(const GroupFacts& group) const {
  if (scorer_ == nullptr) return absl::FailedPreconditionError("this process cannot reach external servers");
  if (options_.group && !group.episodes.empty()) return ScoresIn(Ask(GroupJson(group)), options_.url, group);
  std::vector<absl::StatusOr<TermResult>> results(group.episodes.size(), TermResult());
  ForEach(results.size(), options_.concurrency, [&](size_t i) { results[i] = ScoreOf(group.episodes[i]); });
  return results;
}

}  // namespace ingot::reward
