#include "engines/weight_verifier.h"

#include <absl/strings/str_format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/rng.h"

namespace ingot::engines {
namespace {

constexpr int kPrompts = 4;
constexpr int kMostIds = 33;                              // ids per prompt: two whole KV blocks of 16, and one more id
constexpr double kFp32Bound = 1e-4, kNarrowBound = 0.15;  // bf16 logits of 16 to 32 are 0.125 apart
// Shares of the distance between two sets of weights. One stale tensor exceeds them, and rounding does not.
constexpr double kFp32TrialShare = 2e-3, kNarrowTrialShare = 0.05;
constexpr double kLeastDistance = 1e-5;  // below it, the trial load shows nothing

bool IsNarrow(const weights::Snapshot& snapshot) {
  const auto& tensors = snapshot.manifest().tensors();
  return std::any_of(tensors.begin(), tensors.end(), [](const auto& tensor) { return tensor.dtype() != "F32"; });
}

// Adds up the differences of one kind.
class Differences {
 public:
  explicit Differences(ScoreDifference& all) : all_(all) {}

  void Add(float server, float reference) {
    const double found = std::abs(static_cast<double>(server) - static_cast<double>(reference));
    const double difference = std::isfinite(found) ? found : std::numeric_limits<double>::infinity();
    sum_ += difference;
    ++count_;
    ++all_.tokens;
    if (difference < all_.max) return;
    all_.max = difference;
    all_.server = server;
    all_.reference = reference;
  }
  // Infinite if nothing was added.
  double Mean() const {
    return count_ == 0 ? std::numeric_limits<double>::infinity() : sum_ / static_cast<double>(count_);
  }

 private:
  ScoreDifference& all_;
  double sum_ = 0;
  int64_t count_ = 0;
};

float NextOf(const PromptScores& reference, int32_t id) {
  const bool known = id >= 0 && static_cast<size_t>(id) < reference.next.size();
  return known ? reference.next[static_cast<size_t>(id)] : std::numeric_limits<float>::quiet_NaN();
}

}  // namespace

double ScoreDifference::worst_mean() const { return std::max(scored_mean, sampled_mean); }

std::string ScoreDifference::Text() const {
  return absl::StrFormat(
      "its log-probs for %d ids differ from Ingot's by %.2g on average for scored ids, by %.2g for sampled ids, and by "
      "at most %.2g (%.6g instead of %.6g)",
      tokens, scored_mean, sampled_mean, max, server, reference);
}

std::vector<std::vector<int32_t>> VerificationPrompts(const ServedModel& model) {
  // Special ids are usually the last ones.
  const auto ids = static_cast<uint64_t>(std::max(1, model.vocab_size / 2));
  const int length = std::min(kMostIds, model.context_length - 1);
  std::vector<std::vector<int32_t>> prompts(length < 2 ? 0 : kPrompts);
  for (size_t p = 0; p < prompts.size(); ++p) {
    for (int i = 0; i < length; ++i) {
      prompts[p].push_back(static_cast<int32_t>(base::Mix64(p * 1000003 + static_cast<uint64_t>(i)) % ids));
    }
  }
  return prompts;
}

ScoreDifference DifferenceOf(const std::vector<PromptScores>& reference, const std::vector<ServerScores>& server) {
  ScoreDifference found;
  Differences scored(found), sampled(found);
  for (size_t p = 0; p < reference.size(); ++p) {
    for (size_t i = 0; i < reference[p].logprobs.size(); ++i) {
      const bool has = p < server.size() && i < server[p].logprobs.size();
      scored.Add(has ? server[p].logprobs[i] : std::numeric_limits<float>::quiet_NaN(), reference[p].logprobs[i]);
    }
    if (p < server.size()) sampled.Add(server[p].sampled_logprob, NextOf(reference[p], server[p].sampled));
  }
  found.scored_mean = scored.Mean();
  found.sampled_mean = sampled.Mean();
  return found;
}

double DistanceOf(const std::vector<PromptScores>& a, const std::vector<PromptScores>& b) {
  double sum = 0;
  int64_t count = 0;
  for (size_t p = 0; p < std::min(a.size(), b.size()); ++p) {
    for (size_t i = 0; i < std::min(a[p].logprobs.size(), b[p].logprobs.size()); ++i) {
      sum += std::abs(static_cast<double>(a[p].logprobs[i]) - static_cast<double>(b[p].logprobs[i]));
      ++count;
    }
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

double RoundingBound(const weights::Snapshot& snapshot) { return IsNarrow(snapshot) ? kNarrowBound : kFp32Bound; }

double TrialBound(const weights::Snapshot& perturbed, const std::vector<PromptScores>& expected,
                  const std::vector<PromptScores>& given) {
  return DistanceOf(expected, given) * (IsNarrow(perturbed) ? kNarrowTrialShare : kFp32TrialShare);
}

absl::StatusOr<std::vector<PromptScores>> WeightVerifier::Expect(
    const std::shared_ptr<const weights::Snapshot>& snapshot) {
  absl::StatusOr<std::vector<PromptScores>> scores = reference_.Score(snapshot, prompts_);
  if (scores.ok()) return scores;
  return base::Annotate(
      scores.status(),
      "rollout.external.verify needs Ingot's own log-probs; set it to false to run without verification");
}

absl::StatusOr<std::vector<ServerScores>> WeightVerifier::Ask(ServerControl& control, const ServedWeights& served,
                                                              std::chrono::milliseconds timeout) const {
  std::vector<ServerScores> all;
  for (const std::vector<int32_t>& prompt : prompts_) {
    INGOT_ASSIGN_OR_RETURN(const AnswerEvent scored, control.Score(model_, prompt, served, timeout));
    INGOT_ASSIGN_OR_RETURN(const AnswerEvent sampled, control.Sample(model_, prompt, served, timeout));
    all.push_back({scored.logprobs, sampled.ids[0], sampled.logprobs[0]});
  }
  return all;
}

absl::StatusOr<ScoreDifference> WeightVerifier::Verify(ServerControl& control, const weights::Snapshot& snapshot,
                                                       const ServedWeights& served,
                                                       const std::vector<PromptScores>& expected,
                                                       std::chrono::milliseconds timeout) const {
  INGOT_ASSIGN_OR_RETURN(const std::vector<ServerScores> server, Ask(control, served, timeout));
  const ScoreDifference found = DifferenceOf(expected, server);
  const double bound = bound_ > 0 ? bound_ : RoundingBound(snapshot);
  if (found.worst_mean() <= bound) return found;
  return absl::DataLossError(
      absl::StrFormat("%s does not sample from version %d, although it has loaded it: %s, but "
                      "rollout.external.verify_bound allows a mean of %.2g",
                      control.name(), snapshot.version(), found.Text(), bound));
}

absl::StatusOr<ScoreDifference> WeightVerifier::VerifyTrial(ServerControl& control, const weights::Snapshot& perturbed,
                                                            const ServedWeights& served,
                                                            const std::vector<PromptScores>& expected,
                                                            const std::vector<PromptScores>& given,
                                                            std::chrono::milliseconds timeout) const {
  INGOT_ASSIGN_OR_RETURN(const std::vector<ServerScores> server, Ask(control, served, timeout));
  const ScoreDifference found = DifferenceOf(expected, server);
  const double bound = std::max(TrialBound(perturbed, expected, given), bound_);
  if (DistanceOf(expected, given) < kLeastDistance || found.worst_mean() <= bound) return found;
  return absl::FailedPreconditionError(absl::StrFormat(
      "%s keeps some of its earlier weights when it loads new weights, or computes with a different type: after a "
      "trial load, %s, but rounding explains a mean of only %.2g. Start it with a model folder whose output head is "
      "not tied, with the run's weight type (--dtype), and without quantization",
      control.name(), found.Text(), bound));
}

}  // namespace ingot::engines
