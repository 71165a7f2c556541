// Where a text stands in its grammar, and what may follow: one per request.
//
// A position is a set of places in leaves, each with the stack of rules to return to. A step by a byte moves every
// place; ambiguity is more than one place. The mask of a position is computed over the vocabulary's trie: within a leaf
// by its automaton alone (kept with the leaf, whatever the stack), beyond its end by stepping positions. Masks are kept
// with the program, so that a position seen before costs a look-up. Where many places may end at many nodes of the
// trie, what follows them is stepped once for each distinct rest of a token, not once for each token.
//
// Work is counted in places moved by one byte, some 30 ns each. A text starts with an allowance of kMaxAllowance, which
// every token refills by kAllowancePerToken and every new mask spends from: one mask takes tens of milliseconds at
// most, and many one after the other a few each.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/status.h"
#include "grammar/program.h"

namespace ingot::grammar {

// Single-threaded; several on different threads may share a program.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<const Program> program);

  // The tokens that may come next, apart from the end of the turn. Empty where the text is complete and cannot go on,
  // or where this vocabulary has no token for it. INVALID_ARGUMENT: the grammar is too ambiguous here to tell within
  // the allowance.
  absl::StatusOr<std::shared_ptr<const TokenSet>> Allowed();

  // The text so far is a whole text of the grammar.
  bool complete() const { return position_.complete; }

  // Goes on by a token. False: it was not allowed; the position is then dead, and nothing is allowed any more.
  bool Accept(int32_t id);
  // The same by bytes, as if they were tokens of their own.
  bool AcceptText(std::string_view text);

 private:
  static constexpr int64_t kMaxAllowance = 1'500'000;
  static constexpr int64_t kAllowancePerToken =
      150'000;  // more than a walk over the whole trie, which is an eighth each

  struct Frame {  // what to go on with when a leaf or rule ends
    int32_t state;
    int32_t parent;  // the frame of the rule that state is in; -1: the root
    int32_t depth;   // rules around what was entered
  };
  struct Place {
    int32_t leaf, state;
    uint32_t need, room;  // characters, where the leaf counts them
    int32_t back;         // frame
    auto operator<=>(const Place&) const = default;
  };
  struct Atom {
    int32_t token, back;
    auto operator<=>(const Atom&) const = default;
  };
  struct Position {
    std::vector<Place> places;
    std::vector<Atom> atoms;
    bool complete = false;
    bool alive() const { return complete || !places.empty() || !atoms.empty(); }
    void Clear() {
      places.clear();
      atoms.clear();
      complete = false;
    }
  };

  int32_t DepthIn(int32_t frame) const { return frame < 0 ? 0 : frames_[frame].depth; }
  int32_t FrameOf(int32_t state, int32_t parent);
  void Enter(int32_t state, int32_t parent, Position* out);
  void Return(int32_t frame, Position* out) { Enter(frames_[frame].state, frames_[frame].parent, out); }
  bool Advance(const Place& place, uint8_t byte, Place* next) const;
  void Step(const Position& from, uint8_t byte, Position* to);
  static void Tidy(Position* position);
  void Refill();
  bool AcceptAtom(int32_t id);
  void DropDeadFrames();

  uint32_t CutOff(uint32_t characters, uint32_t more = 0) const;
  std::vector<uint32_t> KeyOfPosition() const;
  std::shared_ptr<const Leaf::Mask> MaskOf(const Place& place);
  std::shared_ptr<const Leaf::Mask> WalkLeaf(const Place& place);
  std::shared_ptr<const Leaf::Mask> CountedMask(const Place& place);
  std::shared_ptr<const Leaf::Profile> ProfileOf(const Place& place);
  void AddAtomsInFreeText(const Place& place, TokenSet::Builder* tokens) const;
  void WalkBeyond(const Leaf::Mask& mask, int32_t back, TokenSet::Builder* tokens);
  struct Tail {
    uint8_t byte;
    uint32_t node;  // that this byte leads to
    auto operator<=>(const Tail&) const = default;
  };
  void WalkTails(size_t depth, size_t first, size_t last, TokenSet::Builder* tokens);

  const std::shared_ptr<const Program> program_;
  const Vocabulary& vocabulary_;
  Position position_;
  std::vector<Frame> frames_;
  absl::flat_hash_map<uint64_t, int32_t> frame_index_;  // (state, parent) -> frame
  std::shared_ptr<const TokenSet> allowed_;             // of position_, once asked for

  // Working memory.
  Position next_;
  absl::flat_hash_set<uint64_t> entered_;
  std::vector<std::pair<int32_t, int32_t>> to_enter_;
  std::vector<Position> walk_;  // by bytes behind the leaf
  std::vector<Tail> tails_;     // a stack of groups
  int64_t allowance_ = kMaxAllowance;
  bool given_up_ = false;  // the position is not known any more
};

// One place by one byte; `next` may be `place` itself. Here, because masks are made of it.
inline bool Matcher::Advance(const Place& place, uint8_t byte, Place* next) const {
  const Leaf& leaf = *program_->leaves[place.leaf];
  const int32_t from = place.state, to = leaf.dfa.Next(from, byte);
  if (to < 0) return false;
  *next = place;
  next->state = to;
  if (leaf.boundary < 0 && leaf.counts.finish.empty()) return true;
  if (leaf.boundary < 0) {
    if (leaf.counts.between[to] && from != 0 && next->room-- == 0) return false;
    return leaf.counts.finish[to] <= next->room;
  }
  if (from == leaf.boundary && (leaf.dfa.accepting[to] ? next->need > 0 : next->room == 0)) return false;
  if (to == leaf.boundary && from != 0) {
    if (next->need > 0) --next->need;
    if (next->room != kNoLimit) --next->room;
  }
  return true;
}

}  // namespace ingot::grammar
