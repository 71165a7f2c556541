// Tracks the position of one request's text in its grammar, and computes the tokens that may follow.
//
// A position is a set of places in leaves, each with a stack of rules to return to. Each byte moves all places. An
// ambiguous position has several places. A position's mask is computed by walking the vocabulary's trie. Inside a leaf,
// the walk needs only the leaf's automaton, and the leaf caches this part of the mask for all stacks. Beyond the end of
// the leaf, the walk steps positions. The program caches complete masks, so a known position takes only one lookup. If
// many places can end at many trie nodes, each distinct token suffix is processed once instead of once per token.
//
// The unit of work is moving one place by one byte, which takes about 30 ns. A matcher starts with an allowance of
// kMaxAllowance. Every token adds kAllowancePerToken, and every new mask is charged to the allowance. One mask takes at
// most tens of milliseconds, and many masks in a row take a few milliseconds each.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/status.h"
#include "grammar/program.h"

namespace ingot::grammar {

// Not thread safe. Matchers on different threads may share a program.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<const Program> program);

  // Returns the tokens that may follow, excluding the end of the turn. Returns an empty set if the text is complete and
  // cannot continue, or if this vocabulary has no suitable token. Returns INVALID_ARGUMENT if the position is too
  // ambiguous to compute within the allowance.
  absl::StatusOr<std::shared_ptr<const TokenSet>> Allowed();

  // Returns whether the grammar allows the text to end here.
  bool complete() const { return position_.complete; }

  // Advances by one token. Returns false if the token is not allowed. After that, no tokens are allowed.
  bool Accept(int32_t id);
  // Advances by bytes, as if each byte were a token.
  bool AcceptText(std::string_view text);

 private:
  static constexpr int64_t kMaxAllowance = 1'500'000;
  // This exceeds the cost of a walk over the entire trie, at an eighth of a unit per node.
  static constexpr int64_t kAllowancePerToken = 150'000;

  struct Frame {     // where to continue when a leaf or rule ends
    int32_t state;   // state to continue at
    int32_t parent;  // frame of the rule that contains `state`; -1 = the root rule
    int32_t depth;   // number of rules that enclose the entered leaf or rule
  };
  struct Place {
    int32_t leaf, state;
    uint32_t need, room;  // characters still required and still allowed; used only if the leaf counts them
    int32_t back;         // frame to return to
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
    uint32_t node;  // trie node after this byte
    auto operator<=>(const Tail&) const = default;
  };
  void WalkTails(size_t depth, size_t first, size_t last, TokenSet::Builder* tokens);

  const std::shared_ptr<const Program> program_;
  const Vocabulary& vocabulary_;
  Position position_;
  std::vector<Frame> frames_;
  absl::flat_hash_map<uint64_t, int32_t> frame_index_;  // frame by (state, parent)
  std::shared_ptr<const TokenSet> allowed_;             // for position_; null = not computed yet

  // Scratch memory.
  Position next_;
  absl::flat_hash_set<uint64_t> entered_;
  std::vector<std::pair<int32_t, int32_t>> to_enter_;
  std::vector<Position> walk_;  // walk_[n] = the position n bytes after the leaf's end
  std::vector<Tail> tails_;     // a stack of groups
  int64_t allowance_ = kMaxAllowance;
  bool given_up_ = false;  // true = the position was too costly to track and is unknown
};

// Moves one place by one byte. `next` may be `&place`. Inline because computing masks calls it.
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
