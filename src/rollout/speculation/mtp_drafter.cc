#include "rollout/speculation/mtp_drafter.h"

#include <algorithm>
#include <string>

#include "base/log.h"

namespace ingot::rollout {
namespace {

constexpr double kFirstGuess = 0.5;
constexpr double kRequestRate = 0.1, kOverallRate = 0.02;  // weight of the newest guess in the moving averages

}  // namespace

MtpDrafter::MtpDrafter(const SpeculationOptions& options, ModelRunner& runner)
    : most_(static_cast<size_t>(options.mtp_drafts)),
      runner_(runner),
      draws_(runner, static_cast<float>(options.sharpness), /*shadow=*/false),
      acceptance_(kFirstGuess) {}

const WeightVersion* MtpDrafter::VersionOf(const Sequence& sequence) const {
  return sequence.pinned != nullptr ? sequence.pinned.get() : newest_.get();
}

void MtpDrafter::Propose(std::span<const Ask> asks) {
  for (const Ask& ask : asks) {
    const auto found = requests_.find(ask.sequence);
    if (found == requests_.end() || !found->second.ready) continue;
    if (VersionOf(*ask.sequence)->salt == failed_salt_) continue;
    ask.draft->ids.assign(std::min(ask.most, most_), 0);
    ask.draft->acceptance = found->second.acceptance;
  }
}

void MtpDrafter::Complete(std::span<const Ask> asks) {
  left_.assign(asks.begin(), asks.end());
  while (!left_.empty()) {  // one version after another
    const WeightVersion& version = *VersionOf(*left_.front().sequence);
    const auto others = std::stable_partition(left_.begin(), left_.end(),
                                              [&](const Ask& ask) { return VersionOf(*ask.sequence) == &version; });
    of_version_.assign(left_.begin(), others);
    left_.erase(left_.begin(), others);
    Draw(version, of_version_);
  }
}

void MtpDrafter::Draw(const WeightVersion& version, std::span<const Ask> asks) {
  ones_.clear();
  for (const Ask& ask : asks) {
    ask.draft->ids.clear();
    const size_t slot = requests_.at(ask.sequence).slot;
    ones_.push_back({ask.sequence, ask.sequence->tokens.size(), slot, ask.most, &ask.draft->ids});
  }
  if (const absl::Status drawn = draws_.Draw(version, ones_); !drawn.ok()) {
    failed_salt_ = version.salt;
    ++failures_;
    INGOT_LOG(warn, "rollout: the draft head of version {} failed and is not used again: {}", version.version,
              std::string(drawn.message()));
  }
  for (const Ask& ask : asks) requests_.at(ask.sequence).guess = ask.draft->ids;
}

void MtpDrafter::Sampled(const Sequence& sequence, size_t count) {
  auto found = requests_.find(&sequence);
  if (found == requests_.end()) {
    const size_t slot = runner_.TakeSlot();
    if (!runner_.KeepHidden(sequence.drawn_row, slot)) {
      runner_.ReturnSlot(slot);
      return;
    }
    requests_[&sequence] = {.slot = slot, .ready = true, .acceptance = acceptance_, .guess = {}};
    return;
  }
  Request& request = found->second;
  Learn(request, std::span(sequence.tokens).last(count));
  request.guess.clear();
  request.ready = runner_.KeepHidden(sequence.drawn_row, request.slot);
}

void MtpDrafter::Learn(Request& request, std::span<const int32_t> sampled) {
  for (size_t i = 0; i < std::min(request.guess.size(), sampled.size()); ++i) {
    const double equal = request.guess[i] == sampled[i] ? 1 : 0;
    request.acceptance += kRequestRate * (equal - request.acceptance);
    acceptance_ += kOverallRate * (equal - acceptance_);
    if (equal == 0) break;
  }
}

void MtpDrafter::Ended(const Sequence& sequence) {
  const auto found = requests_.find(&sequence);
  if (found == requests_.end()) return;
  runner_.ReturnSlot(found->second.slot);
  requests_.erase(found);
}

}  // namespace ingot::rollout
