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
      sharpness_(static_cast<float>(options.sharpness)),
      runner_(runner),
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
  size_t most = 0;
  rows_.clear();
  for (size_t i = 0; i < asks.size(); ++i) {
    most = std::max(most, asks[i].most);
    asks[i].draft->ids.clear();
    rows_.push_back(i);
  }
  for (size_t depth = 0; depth < most && !rows_.empty(); ++depth) {
    if (!DrawDepth(version, asks, depth)) break;
  }
  for (const Ask& ask : asks) requests_.at(ask.sequence).guess = ask.draft->ids;
}

bool MtpDrafter::DrawDepth(const WeightVersion& version, std::span<const Ask> asks, size_t depth) {
  std::vector<int64_t> from = std::move(batch_.from);  // at depth > 0: rows of the previous depth
  batch_ = DraftBatch();
  batch_.first = depth == 0;
  for (size_t row = 0; row < rows_.size(); ++row) {
    const Ask& ask = asks[rows_[row]];
    const Sequence& sequence = *ask.sequence;
    batch_.from.push_back(depth == 0 ? static_cast<int64_t>(requests_.at(&sequence).slot) : from[row]);
    batch_.token_ids.push_back(depth == 0 ? sequence.tokens.back() : ask.draft->ids.back());
    const float temperature = sequence.draw.temperature == 0 ? 1 : sequence.draw.temperature;
    batch_.temperatures.push_back(temperature / sharpness_);
    batch_.positions.push_back(static_cast<int64_t>(sequence.tokens.size() - 1 + depth));
    batch_.tables.push_back(std::ssize(batch_.block_tables));
    for (const KvBlocks::Ref& block : sequence.blocks) batch_.block_tables.push_back(block.id());
  }
  const absl::StatusOr<DraftRows> drafted = runner_.Draft(*version.model, batch_);
  absl::Status fault = drafted.status();
  batch_.from.clear();
  std::vector<size_t> longer;
  for (size_t row = 0; fault.ok() && row < rows_.size(); ++row) {
    const Ask& ask = asks[rows_[row]];
    const Sequence& sequence = *ask.sequence;
    const absl::StatusOr<int32_t> id =
        sampler_.Draw({drafted->logprobs.subspan(row * drafted->width, drafted->width), drafted->ids}, sequence.draw,
                      sequence.sampled() + static_cast<int64_t>(depth));
    fault = id.status();
    if (!id.ok()) break;
    ask.draft->ids.push_back(*id);
    if (ask.draft->ids.size() >= ask.most) continue;
    longer.push_back(rows_[row]);
    batch_.from.push_back(static_cast<int64_t>(row));
  }
  rows_ = std::move(longer);
  if (fault.ok()) return true;
  failed_salt_ = version.salt;
  INGOT_LOG(warn, "rollout: the draft head of version {} failed and is not used again: {}", version.version,
            std::string(fault.message()));
  return false;
}

size_t MtpDrafter::TakeSlot() {
  if (free_slots_.empty()) return slots_++;
  const size_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void MtpDrafter::Sampled(const Sequence& sequence, size_t count) {
  auto found = requests_.find(&sequence);
  if (found == requests_.end()) {
    const size_t slot = TakeSlot();
    if (!runner_.KeepHidden(sequence.drawn_row, slot)) {
      free_slots_.push_back(slot);
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
  free_slots_.push_back(found->second.slot);
  requests_.erase(found);
}

}  // namespace ingot::rollout
