#include "rollout/speculation/speculator.h"

#include <algorithm>
#include <utility>

#include "rollout/engine/sequence.h"
#include "rollout/speculation/given_drafter.h"
#include "rollout/speculation/history_drafter.h"
#include "rollout/speculation/mtp_drafter.h"

namespace ingot::rollout {

std::vector<std::unique_ptr<Drafter>> MakeDrafters(const SpeculationOptions& options, ModelRunner& runner) {
  std::vector<std::unique_ptr<Drafter>> drafters;
  for (const std::string& name : options.drafters) {
    if (name == "given") drafters.push_back(std::make_unique<GivenDrafter>());
    if (name == "history") drafters.push_back(std::make_unique<HistoryDrafter>(options));
    if (name == "mtp") drafters.push_back(std::make_unique<MtpDrafter>(options, runner));
  }
  return drafters;
}

Speculator::Speculator(std::vector<std::unique_ptr<Drafter>> drafters, double min_gain, int64_t vocab_size)
    : vocab_size_(vocab_size), drafters_(std::move(drafters)), policy_(min_gain) {
  for (const auto& drafter : drafters_) counts_.push_back({.name = drafter->name()});
}

void Speculator::UseNewest(const std::shared_ptr<const WeightVersion>& version) {
  for (const auto& drafter : drafters_) drafter->UseNewest(version);
}

void Speculator::Begun(const Sequence& sequence, size_t cached) {
  for (const auto& drafter : drafters_) drafter->Begun(sequence, cached);
}

void Speculator::Ended(const Sequence& sequence) {
  for (const auto& drafter : drafters_) drafter->Ended(sequence);
}

void Speculator::Plan(std::span<const Sampling> requests, int64_t rows, int64_t free_rows) {
  for (size_t drafter = 0; drafter < drafters_.size(); ++drafter) Propose(drafter, requests);
  survivals_.clear();
  for (const Sampling& request : requests) {
    const Draft& draft = request.sequence->draft;
    survivals_.push_back({.drafts = static_cast<int32_t>(draft.ids.size()), .acceptance = draft.acceptance});
  }
  const std::vector<int32_t> plan = policy_.Plan(survivals_, rows, free_rows);
  for (size_t i = 0; i < requests.size(); ++i) requests[i].sequence->draft.ids.resize(static_cast<size_t>(plan[i]));
}

void Speculator::Complete(std::span<const Sampling> requests) {
  for (size_t drafter = 0; drafter < drafters_.size(); ++drafter) Complete(drafter, requests);
}

void Speculator::Complete(size_t drafter, std::span<const Sampling> requests) {
  asks_.clear();
  for (const Sampling& request : requests) {
    Sequence& sequence = *request.sequence;
    if (sequence.drafter != drafter || sequence.draft.ids.empty()) continue;
    asks_.push_back({&sequence, sequence.draft.ids.size(), &sequence.draft});
  }
  if (asks_.empty()) return;
  drafters_[drafter]->Complete(asks_);
  for (const Drafter::Ask& ask : asks_) CutIds(drafter, ask);
  counts_[drafter].failures = drafters_[drafter]->failures();
}

// Asks a drafter about the requests for which no earlier drafter has a draft.
void Speculator::Propose(size_t drafter, std::span<const Sampling> requests) {
  asks_.clear();
  for (const Sampling& request : requests) {
    Sequence& sequence = *request.sequence;
    if (request.most == 0 || !sequence.draft.ids.empty()) continue;
    sequence.drafter = drafter;
    asks_.push_back({&sequence, request.most, &sequence.draft});
  }
  if (asks_.empty()) return;
  drafters_[drafter]->Propose(asks_);
  for (const Drafter::Ask& ask : asks_) {
    CutIds(drafter, ask);
    counts_[drafter].proposed += std::ssize(ask.draft->ids);
  }
}

// Drops ids outside the vocabulary, everything after them, and ids that do not fit. Counts all but the last.
void Speculator::CutIds(size_t drafter, const Drafter::Ask& ask) {
  std::vector<int32_t>& ids = ask.draft->ids;
  const auto outside = [&](int32_t id) { return id < 0 || id >= vocab_size_; };
  ids.resize(std::min(ids.size(), ask.most));
  const auto first = std::find_if(ids.begin(), ids.end(), outside);
  counts_[drafter].dropped += ids.end() - first;
  ids.erase(first, ids.end());
}

void Speculator::Sampled(Sequence& sequence, size_t count) {
  if (!sequence.draft.ids.empty()) {
    counts_[sequence.drafter].drafted += std::ssize(sequence.draft.ids);
    counts_[sequence.drafter].accepted += static_cast<int64_t>(sequence.accepted);
    sequence.draft.ids.clear();
  }
  if (count == 0) return;
  for (const auto& drafter : drafters_) drafter->Sampled(sequence, count);
}

void Speculator::Measured(int64_t rows, std::chrono::nanoseconds time) {
  policy_.Measured(rows, std::chrono::duration<double>(time).count());
}

}  // namespace ingot::rollout
