// Stores token ids and finds the ids that followed a given context. Uses a ring of records with LZ77 hash chains. A
// chain links the positions whose last `min_match` ids have the same hash, newest first.
//
//   ring    -1 [a b c d e f] -1 [x a b c g] -1 ...    Continue({..., a, b, c}): candidates after "a b c" are d and g
//
// Old records are overwritten. Not thread safe. Uses 12 bytes per id of capacity, allocated as it fills.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ingot::rollout {

class TokenHistory {
 public:
  // Keeps the newest `capacity` ids, rounded down to a power of two. REQUIRES: 0 < min_match <= max_match, and
  // 1024 <= capacity <= 2^30.
  TokenHistory(int64_t capacity, int32_t min_match, int32_t max_match);

  // Adds the ids that followed `context`. Only the last max_match ids of `context` are stored, which is enough to find
  // the first of `ids`. Ids must not be negative.
  void Append(std::span<const int32_t> context, std::span<const int32_t> ids);

  // Appends to `guess` at most `most` ids that may follow `tokens`. Each is the most frequent id among the newest
  // positions with the longest matching context. Ties go to the newest id. Returns the length of the matching context;
  // 0 = no guess.
  int32_t Continue(std::span<const int32_t> tokens, size_t most, std::vector<int32_t>* guess);

 private:
  // Positions count all ids ever stored, modulo 2^32.
  using Position = uint32_t;

  static constexpr int32_t kBetweenRecords = -1;
  static constexpr int kMaxSteps = 16;  // maximum steps along a chain

  int32_t At(Position position) const { return ids_[position & mask_]; }
  bool Stored(Position position) const { return end_ - position - 1 < ids_.size(); }
  size_t SlotOf(std::span<const int32_t> tokens) const;
  void Store(int32_t id);
  void Link(Position last);
  int32_t MatchLength(Position last, std::span<const int32_t> tokens) const;
  int32_t FindCandidates(std::span<const int32_t> tokens);
  // Returns the candidates' most frequent next id and drops the other candidates; -1 = no candidate has a next id.
  int32_t Vote();

  const size_t min_match_, max_match_;
  const Position mask_;
  Position end_ = 0;
  std::vector<int32_t> ids_;        // by position & mask_
  std::vector<Position> previous_;  // the next older position in the chain, by position & mask_
  std::vector<Position> newest_;    // by SlotOf

  // Scratch memory.
  std::vector<Position> candidates_;  // positions of the last matching id
  std::vector<int32_t> tail_;
};

}  // namespace ingot::rollout
