#include "rollout/speculation/history_drafter.h"

#include <algorithm>

#include "rollout/engine/sequence.h"

namespace ingot::rollout {
namespace {

constexpr size_t kKeepEvery = 32;  // in ids; a record repeats max_match ids of the previous one
constexpr double kFirstGuess = 0.5;
constexpr double kRequestRate = 0.1, kMatchRate = 0.02;  // weight of the newest guess in the moving averages

}  // namespace

HistoryDrafter::HistoryDrafter(const SpeculationOptions& options)
    : max_drafts_(static_cast<size_t>(options.max_drafts)),
      history_(options.history_tokens, options.min_match, options.max_match),
      by_match_(static_cast<size_t>(options.max_match) + 1, kFirstGuess) {}

// The cached part was stored when it was computed.
void HistoryDrafter::Begun(const Sequence& sequence, size_t cached) {
  Request& request = requests_[&sequence];
  request.kept = cached;
  Keep(sequence, request);
}

void HistoryDrafter::Keep(const Sequence& sequence, Request& request) {
  const std::span<const int32_t> tokens = sequence.tokens;
  history_.Append(tokens.first(request.kept), tokens.subspan(request.kept));
  request.kept = tokens.size();
}

void HistoryDrafter::Propose(std::span<const Ask> asks) {
  for (const Ask& ask : asks) ProposeOne(ask);
}

void HistoryDrafter::ProposeOne(const Ask& ask) {
  const auto found = requests_.find(ask.sequence);
  if (found == requests_.end()) return;
  Request& request = found->second;
  request.guess.clear();
  request.match = history_.Continue(ask.sequence->tokens, std::min(ask.most, max_drafts_), &request.guess);
  if (request.guess.empty()) return;
  const double of_match = by_match_[static_cast<size_t>(request.match)];
  if (request.acceptance < 0) request.acceptance = of_match;
  ask.draft->ids = request.guess;
  ask.draft->acceptance = (request.acceptance + of_match) / 2;
}

void HistoryDrafter::Sampled(const Sequence& sequence, size_t count) {
  const auto found = requests_.find(&sequence);
  if (found == requests_.end()) return;
  Request& request = found->second;
  Learn(request, std::span(sequence.tokens).last(count));
  request.guess.clear();
  if (sequence.tokens.size() - request.kept >= kKeepEvery) Keep(sequence, request);
}

void HistoryDrafter::Learn(Request& request, std::span<const int32_t> sampled) {
  double& of_match = by_match_[static_cast<size_t>(request.match)];
  for (size_t i = 0; i < std::min(request.guess.size(), sampled.size()); ++i) {
    const bool equal = request.guess[i] == sampled[i];
    request.acceptance += kRequestRate * ((equal ? 1 : 0) - request.acceptance);
    of_match += kMatchRate * ((equal ? 1 : 0) - of_match);
    if (!equal) break;
  }
}

void HistoryDrafter::Ended(const Sequence& sequence) {
  const auto found = requests_.find(&sequence);
  if (found == requests_.end()) return;
  Keep(sequence, found->second);
  requests_.erase(found);
}

}  // namespace ingot::rollout
