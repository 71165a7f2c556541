#include "engines/verification/weight_verifier.h"

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
constexpr int kSampledIds = 16;                           // after each prompt, to verify an adapter
constexpr int kReserve = 8;                               // ids of the context that a server may keep free
constexpr double kFp32Bound = 1e-4, kNarrowBound = 0.15;  // bf16 logits of 16 to 32 are 0.125 apart
// Shares of the distance between two sets of weights. One stale tensor exceeds them, and rounding does not.
constexpr double kFp32TrialShare = 2e-3, kNarrowTrialShare = 0.05;
// The same for adapters: one layer's factors, or those of one kind of product, exceed it.
constexpr double kNarrowAdapterShare = 0.25;
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
  const std::string scored =
      sampled == tokens ? "" : absl::StrFormat("by %.2g on average for scored ids, ", scored_mean);
  return absl::StrFormat(
      "its log-probs for %d ids differ from Ingot's %sby %.2g on average for sampled ids, and by at most %.2g (%.6g "
      "instead of %.6g)",
      tokens, scored, sampled_mean, max, server, reference);
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
    if (p >= server.size()) continue;
    sampled.Add(server[p].sampled_logprob, NextOf(reference[p], server[p].sampled));
    ++found.sampled;
  }
  found.scored_mean = scored.Mean();
  found.sampled_mean = sampled.Mean();
  return found;
}

ScoreDifference DifferenceOfSamples(const std::vector<PromptScores>& reference,
                                    const std::vector<ServerSample>& server) {
  ScoreDifference found;
  Differences sampled(found);
  for (size_t p = 0; p < server.size(); ++p) {
    for (size_t i = 0; i < server[p].logprobs.size(); ++i) {
      const bool has = p < reference.size() && i < reference[p].logprobs.size();
      sampled.Add(server[p].logprobs[i], has ? reference[p].logprobs[i] : std::numeric_limits<float>::quiet_NaN());
    }
  }
  found.sampled = found.tokens;
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

double AdapterTrialBound(const weights::Snapshot& perturbed, const std::vector<PromptScores>& expected,
                         const std::vector<PromptScores>& given) {
  const double bound = TrialBound(perturbed, expected, given);
  if (!IsNarrow(perturbed)) return bound;
  return std::max(bound, std::min(kNarrowBound, DistanceOf(expected, given) * kNarrowAdapterShare));
}

absl::StatusOr<std::vector<PromptScores>> WeightVerifier::Expect(
    const std::shared_ptr<const weights::Snapshot>& snapshot) {
  return Score(snapshot, prompts_);
}

absl::StatusOr<std::vector<PromptScores>> WeightVerifier::Score(
    const std::shared_ptr<const weights::Snapshot>& snapshot, const std::vector<std::vector<int32_t>>& sequences) {
  absl::StatusOr<std::vector<PromptScores>> scores = reference_.Score(snapshot, sequences);
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
  return Judge(control, snapshot, DifferenceOf(expected, server));
}

absl::StatusOr<ScoreDifference> WeightVerifier::Judge(const ServerControl& control, const weights::Snapshot& snapshot,
                                                      const ScoreDifference& found) const {
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
  return JudgeTrial(control, DifferenceOf(expected, server), DistanceOf(expected, given),
                    TrialBound(perturbed, expected, given));
}

absl::StatusOr<ScoreDifference> WeightVerifier::JudgeTrial(const ServerControl& control, const ScoreDifference& found,
                                                           double distance, double rounding) const {
  const double bound = std::max(rounding, bound_);
  if (distance < kLeastDistance || found.worst_mean() <= bound) return found;
  return absl::FailedPreconditionError(absl::StrFormat(
      "%s keeps some of its earlier weights when it loads new weights, or computes with a different type: after a "
      "trial load, %s, but rounding explains a mean of only %.2g. Start it with a model folder whose output head is "
      "not tied, with the run's weight type (--dtype), and without quantization",
      control.name(), found.Text(), bound));
}

absl::StatusOr<std::vector<ServerSample>> WeightVerifier::Sample(ServerControl& control, const ServedWeights& served,
                                                                 std::chrono::milliseconds timeout) const {
  std::vector<ServerSample> all;
  for (const std::vector<int32_t>& prompt : prompts_) {
    const int room = model_.context_length - static_cast<int>(prompt.size()) - kReserve;
    const int count = std::clamp(room, 1, kSampledIds);
    INGOT_ASSIGN_OR_RETURN(AnswerEvent sampled, control.Continue(model_, prompt, count, served, timeout));
    all.push_back({std::move(sampled.ids), std::move(sampled.logprobs)});
  }
  return all;
}

absl::StatusOr<std::vector<PromptScores>> WeightVerifier::ScoresOf(
    const std::vector<ServerSample>& samples, const std::shared_ptr<const weights::Snapshot>& snapshot) {
  std::vector<std::vector<int32_t>> sequences = prompts_;
  for (size_t p = 0; p < sequences.size(); ++p) {
    sequences[p].insert(sequences[p].end(), samples[p].ids.begin(), samples[p].ids.end());
  }
  INGOT_ASSIGN_OR_RETURN(std::vector<PromptScores> scores, Score(snapshot, sequences));
  for (size_t p = 0; p < scores.size(); ++p) {
    std::vector<float>& logprobs = scores[p].logprobs;
    const size_t given = std::min(prompts_[p].size() - 1, logprobs.size());
    logprobs.erase(logprobs.begin(), logprobs.begin() + static_cast<std::ptrdiff_t>(given));
  }
  return scores;
}

absl::StatusOr<ScoreDifference> WeightVerifier::VerifySamples(ServerControl& control,
                                                              const std::shared_ptr<const weights::Snapshot>& snapshot,
                                                              const ServedWeights& served,
                                                              std::chrono::milliseconds timeout) {
  INGOT_ASSIGN_OR_RETURN(const std::vector<ServerSample> server, Sample(control, served, timeout));
  INGOT_ASSIGN_OR_RETURN(const std::vector<PromptScores> expected, ScoresOf(server, snapshot));
  return Judge(control, *snapshot, DifferenceOfSamples(expected, server));
}

absl::StatusOr<ScoreDifference> WeightVerifier::VerifyTrialSamples(
    ServerControl& control, const std::shared_ptr<const weights::Snapshot>& perturbed,
    const std::shared_ptr<const weights::Snapshot>& given, const ServedWeights& served,
    std::chrono::milliseconds timeout) {
  INGOT_ASSIGN_OR_RETURN(const std::vector<ServerSample> server, Sample(control, served, timeout));
  INGOT_ASSIGN_OR_RETURN(const std::vector<PromptScores> expected, ScoresOf(server, perturbed));
  INGOT_ASSIGN_OR_RETURN(const std::vector<PromptScores> original, ScoresOf(server, given));
  return JudgeTrial(control, DifferenceOfSamples(expected, server), DistanceOf(expected, original),
                    AdapterTrialBound(*perturbed, expected, original));
}

}  // namespace ingot::engines
