#include "rollout/speculation/token_history.h"

#include <algorithm>
#include <bit>

#include "base/rng.h"

namespace ingot::rollout {

TokenHistory::TokenHistory(int64_t capacity, int32_t min_match, int32_t max_match)
    : min_match_(static_cast<size_t>(min_match)),
      max_match_(static_cast<size_t>(max_match)),
      mask_(std::bit_floor(static_cast<Position>(capacity)) - 1),
      newest_(static_cast<size_t>(mask_) + 1, 0) {}

size_t TokenHistory::SlotOf(std::span<const int32_t> tokens) const {
  uint64_t hash = 0;
  for (const int32_t id : tokens.last(min_match_)) hash = base::Mix64(hash ^ static_cast<uint64_t>(id));
  return hash & mask_;
}

void TokenHistory::Store(int32_t id) {
  if (ids_.size() <= mask_) {
    ids_.push_back(id);
    previous_.push_back(0);
  } else {
    ids_[end_ & mask_] = id;
  }
  ++end_;
}

// Makes the position findable by the ids that end there.
void TokenHistory::Link(Position last) {
  tail_.clear();
  for (Position back = static_cast<Position>(min_match_); back-- > 0;) {
    if (!Stored(last - back) || At(last - back) == kBetweenRecords) return;
    tail_.push_back(At(last - back));
  }
  Position& newest = newest_[SlotOf(tail_)];
  previous_[last & mask_] = newest;
  newest = last;
}

void TokenHistory::Append(std::span<const int32_t> context, std::span<const int32_t> ids) {
  if (ids.empty()) return;
  context = context.last(std::min(context.size(), max_match_));
  Store(kBetweenRecords);
  for (const int32_t id : context) Store(id);
  // A position is linked once the next id is stored. Positions before the context's last one were linked earlier.
  for (const int32_t id : ids) {
    Store(id);
    Link(end_ - 2);
  }
}

int32_t TokenHistory::MatchLength(Position last, std::span<const int32_t> tokens) const {
  const size_t most = std::min(max_match_, tokens.size());
  size_t length = 0;
  while (length < most && Stored(last - static_cast<Position>(length)) &&
         At(last - static_cast<Position>(length)) == tokens[tokens.size() - 1 - length]) {
    ++length;
  }
  return static_cast<int32_t>(length);
}

int32_t TokenHistory::FindCandidates(std::span<const int32_t> tokens) {
  candidates_.clear();
  if (tokens.size() < min_match_ || ids_.empty()) return 0;
  auto longest = static_cast<int32_t>(min_match_);
  Position at = newest_[SlotOf(tokens)];
  for (int step = 0; step < kMaxSteps && Stored(at); ++step) {
    const int32_t length = MatchLength(at, tokens);
    if (length > longest) candidates_.clear();
    longest = std::max(longest, length);
    if (length == longest) candidates_.push_back(at);
    const Position older = previous_[at & mask_];
    if (end_ - older <= end_ - at) break;  // the rest of the chain was overwritten
    at = older;
  }
  return candidates_.empty() ? 0 : longest;
}

int32_t TokenHistory::Vote() {
  const auto next = [&](Position at) { return end_ - at > 1 ? At(at + 1) : kBetweenRecords; };
  int32_t best = kBetweenRecords;
  ptrdiff_t best_count = 0;
  for (const Position at : candidates_) {  // newest first
    const int32_t id = next(at);
    if (id == kBetweenRecords || id == best) continue;
    const ptrdiff_t count =
        std::count_if(candidates_.begin(), candidates_.end(), [&](Position other) { return next(other) == id; });
    if (count > best_count) {
      best = id;
      best_count = count;
    }
  }
  std::erase_if(candidates_, [&](Position at) { return next(at) != best || best == kBetweenRecords; });
  for (Position& at : candidates_) ++at;
  return best;
}

int32_t TokenHistory::Continue(std::span<const int32_t> tokens, size_t most, std::vector<int32_t>* guess) {
  std::vector<int32_t> tail(tokens.end() - static_cast<ptrdiff_t>(std::min(tokens.size(), max_match_)), tokens.end());
  int32_t first_match = 0;
  for (size_t count = 0; count < most;) {
    // At the end of a record, its continuation may be in another one.
    const int32_t match = FindCandidates(tail);
    if (match == 0) break;
    if (first_match == 0) first_match = match;
    const size_t before = count;
    for (; count < most; ++count) {
      const int32_t id = Vote();
      if (id == kBetweenRecords) break;
      guess->push_back(id);
      tail.push_back(id);
    }
    if (count == before) break;
    tail.erase(tail.begin(), tail.end() - static_cast<ptrdiff_t>(std::min(tail.size(), max_match_)));
  }
  return guess->empty() ? 0 : first_match;
}

}  // namespace ingot::rollout
