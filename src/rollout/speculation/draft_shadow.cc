#include "rollout/speculation/draft_shadow.h"

#include <algorithm>
#include <string>

#include "base/log.h"

namespace ingot::rollout {
namespace {

// Returns the number of drafts in a pass after the first `tokens` tokens, if memory and rows are free for all
// (EngineCore::RoomForDrafts).
size_t RoomAt(const Sequence& sequence, size_t tokens) {
  const size_t forced = sequence.forced_ids.size(), sampled = tokens - sequence.prompt_size;
  const size_t end = std::min(sequence.limit, sequence.pause_size);
  const size_t left = std::min(end - std::min(end, tokens), forced > 0 ? forced - std::min(forced, sampled) : end);
  return std::max<size_t>(left, 1) - 1;
}

}  // namespace

DraftShadow::DraftShadow(const SpeculationOptions& options, ModelRunner& runner)
    : most_(static_cast<size_t>(options.mtp_drafts)),
      runner_(runner),
      draws_(runner, static_cast<float>(options.sharpness), /*shadow=*/true) {}

void DraftShadow::Sampled(const Sequence& sequence, const WeightVersion& version, size_t count) {
  if (!runner_.has_shadow(*version.model) || version.salt == failed_salt_) {
    Forget(sequence);
    return;
  }
  const size_t tokens = sequence.tokens.size();
  const auto [found, begins] = requests_.try_emplace(&sequence);
  Request& request = found->second;
  if (begins) {  // a pass without drafts, because there was no hidden state before it
    request.begin = tokens - count;
    request.drafted = true;
  }
  request.version = &version;
  request.first_kept = tokens - count;  // passes that begin later than the current one begin after one of these ids
  for (size_t token = request.first_kept; token < tokens; ++token) {
    const size_t slot = runner_.TakeSlot();
    request.slots.push_back(slot);
    if (runner_.KeepHidden(sequence.drawn_row - (tokens - 1 - token), slot)) continue;
    Forget(sequence);
    return;
  }
  sampled_.push_back(&sequence);
}

void DraftShadow::Ended(const Sequence& sequence) {
  const auto found = requests_.find(&sequence);
  if (found == requests_.end()) return;
  found->second.ended = true;
  if (found->second.slots.empty()) Forget(sequence);
}

void DraftShadow::Forget(const Sequence& sequence) {
  const auto found = requests_.find(&sequence);
  if (found == requests_.end()) return;
  DropSlots(found->second);
  requests_.erase(found);
}

void DraftShadow::DropSlots(Request& request) {
  for (const size_t slot : request.slots) runner_.ReturnSlot(slot);
  request.slots.clear();
}

void DraftShadow::EndStep() {
  if (sampled_.empty()) return;
  while (true) {
    asking_.clear();
    for (const Sequence* sequence : sampled_) {
      const auto found = requests_.find(sequence);
      if (found != requests_.end() && NeedsGuess(*sequence, found->second)) asking_.push_back(sequence);
    }
    if (asking_.empty()) break;
    Draw();
  }
  for (const Sequence* sequence : sampled_) {
    const auto found = requests_.find(sequence);
    if (found == requests_.end()) continue;
    DropSlots(found->second);
    if (found->second.ended) requests_.erase(found);
  }
  sampled_.clear();
}

bool DraftShadow::Advance(const Sequence& sequence, Request& request) {
  const auto sampled = std::span(sequence.tokens).subspan(request.begin);
  if (!request.drafted || sampled.empty()) return false;
  const std::vector<int32_t>& guess = request.guess;
  const size_t compared = std::min(guess.size(), sampled.size());
  const auto equal = static_cast<size_t>(
      std::mismatch(guess.begin(), guess.begin() + static_cast<ptrdiff_t>(compared), sampled.begin()).first -
      guess.begin());
  if (equal == sampled.size() && !request.ended) return false;
  const size_t tokens = std::min(equal + 1, sampled.size());
  counts_.drafted += std::ssize(guess);
  counts_.accepted += static_cast<int64_t>(equal);
  counts_.tokens += static_cast<int64_t>(tokens);
  ++counts_.passes;
  request.begin += tokens;
  request.guess.clear();
  request.drafted = false;
  return true;
}

bool DraftShadow::NeedsGuess(const Sequence& sequence, Request& request) {
  while (true) {
    if (request.drafted && !Advance(sequence, request)) return false;
    if (request.begin == sequence.tokens.size() && request.ended) return false;
    if (RoomAt(sequence, request.begin) > 0) return true;
    request.drafted = true;  // a pass for the request's last id
  }
}

void DraftShadow::Draw() {
  left_.assign(asking_.begin(), asking_.end());
  while (!left_.empty()) {  // one version after another
    const WeightVersion& version = *requests_.at(left_.front()).version;
    ones_.clear();
    std::erase_if(left_, [&](const Sequence* sequence) {
      Request& request = requests_.at(sequence);
      if (request.version != &version) return false;
      const size_t slot = request.slots[request.begin - 1 - request.first_kept];
      const size_t most = std::min(most_, RoomAt(*sequence, request.begin));
      ones_.push_back({sequence, request.begin, slot, most, &request.guess});
      request.drafted = true;
      return true;
    });
    const absl::Status drawn = draws_.Draw(version, ones_);
    if (drawn.ok()) continue;
    failed_salt_ = version.salt;
    INGOT_LOG(warn, "rollout: the shadow head of version {} failed and is not used again: {}", version.version,
              std::string(drawn.message()));
    for (const HeadDraws::One& one : ones_) Forget(*one.sequence);
  }
}

}  // namespace ingot::rollout
