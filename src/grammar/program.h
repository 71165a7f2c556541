// A compiled grammar: a pushdown automaton whose edges take whole leaves (finite automata over bytes), call rules, or
// take one atomic token.
//
//   program --> rules (the root, and one per JSON object or array) --> states --edges--> leaves, rules, atoms
//
// Recursion goes through rules alone, and a rule begins by taking a bracket: how deep rules nest is how deep the JSON
// does, at most kMaxNesting. Each state knows how many levels it needs to come to an end, so that no state is ever
// entered that cannot be left.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/mutex.h"
#include "grammar/chars.h"
#include "grammar/dfa.h"
#include "grammar/vocabulary.h"

namespace ingot::grammar {

// Levels of objects and arrays in what is sampled.
inline constexpr int32_t kMaxNesting = 64;
inline constexpr uint32_t kNoLimit = UINT32_MAX;
// Places that a text may stand at, at once.
inline constexpr size_t kMaxPlaces = 4096;

// Memory that the masks of one engine may take together. Thread safe.
struct MaskBudget {
  const int64_t limit_bytes = int64_t{256} << 20;
  std::atomic<int64_t> used_bytes{0};
};

// Masks by key, dropped all at once when the budget is used up. Thread safe.
template <typename Key, typename Mask>
class MaskCache {
 public:
  explicit MaskCache(std::shared_ptr<MaskBudget> budget) : budget_(std::move(budget)) {}
  ~MaskCache() { budget_->used_bytes -= bytes_; }
  MaskCache(const MaskCache&) = delete;
  MaskCache& operator=(const MaskCache&) = delete;

  std::shared_ptr<const Mask> Find(const Key& key) const {
    base::MutexLock lock(mu_);
    const auto found = masks_.find(key);
    return found == masks_.end() ? nullptr : found->second;
  }
  void Put(const Key& key, std::shared_ptr<const Mask> mask, int64_t bytes) {
    base::MutexLock lock(mu_);
    if (budget_->used_bytes + bytes > budget_->limit_bytes) {
      masks_.clear();
      budget_->used_bytes -= std::exchange(bytes_, 0);
      if (budget_->used_bytes + bytes > budget_->limit_bytes) return;
    }
    if (!masks_.emplace(key, std::move(mask)).second) return;
    bytes_ += bytes;
    budget_->used_bytes += bytes;
  }

 private:
  const std::shared_ptr<MaskBudget> budget_;
  mutable base::Mutex mu_;
  std::map<Key, std::shared_ptr<const Mask>> masks_ ABSL_GUARDED_BY(mu_);
  int64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

// A finite automaton with the masks of its states, shared by all grammars that have it.
struct Leaf {
  // Tokens that stay within the leaf or end with it, and where in the trie it may end with bytes of the token left.
  struct Mask {
    TokenSet tokens;
    std::vector<uint32_t> exits;
  };
  // State, characters still needed and still allowed (each cut off where no token can tell).
  using Key = std::tuple<int32_t, uint32_t, uint32_t>;

  // What the mask of a state is made of where characters are counted, for any number of them.
  struct Profile {
    struct Item {
      int32_t at;            // token, or node of the trie for an exit
      uint8_t room, filled;  // characters it begins and completes
    };
    std::vector<Item> within;  // tokens that end inside the string, by room
    std::vector<Item> whole;   // tokens that end with the string
    std::vector<Item> exits;   // in the order of the trie
  };

  Leaf(Dfa automaton, const std::shared_ptr<MaskBudget>& budget)
      : dfa(std::move(automaton)), masks(budget), profiles(budget) {}

  const Dfa dfa;
  int32_t boundary = -1;   // >= 0: a string; the state between two of its characters, where they are counted
  bool free_text = false;  // takes atomic tokens too, byte by byte
  // By state, where a limit of characters is counted beside a pattern's automaton; else empty.
  CharacterCounts counts;
  uint32_t longest_finish = 0;  // of counts: the most characters that any state still needs
  mutable MaskCache<Key, Mask> masks;
  mutable MaskCache<int32_t, Profile> profiles;  // by state
};

struct Edge {
  enum Kind : uint8_t {
    kEpsilon,
    kLeaf,  // leaves[arg], with a number of characters where it counts them
    kRule,  // rule_starts[arg]
    kAtom,  // the token `arg`
  } kind = kEpsilon;
  int32_t arg = 0;
  int32_t target = 0;
  uint32_t min_chars = 0, max_chars = kNoLimit;
  auto operator<=>(const Edge&) const = default;
};

struct State {
  std::vector<Edge> edges;
  bool accepting = false;  // its rule may end here
  int32_t need = 0;        // levels of rules needed at least to come to the end of this one
};

// Immutable but for its masks; thread safe.
struct Program {
  Program(std::shared_ptr<const Vocabulary> v, std::shared_ptr<MaskBudget> budget)
      : vocabulary(std::move(v)), masks(std::move(budget)) {}

  const std::shared_ptr<const Vocabulary> vocabulary;
  std::vector<State> states;
  std::vector<std::shared_ptr<const Leaf>> leaves;
  std::vector<int32_t> rule_starts;  // rule 0 is the root
  mutable MaskCache<std::vector<uint32_t>, TokenSet> masks;
};

// Leaves by what they accept, shared between grammars as long as one uses them. Thread safe.
class LeafPool {
 public:
  explicit LeafPool(std::shared_ptr<MaskBudget> budget) : budget_(std::move(budget)) {}

  // The leaf of that name, made by `make` (a StatusOr<Dfa>) if there is none. `counted`: it is a string's, whose
  // characters are counted.
  template <typename Make>
  absl::StatusOr<std::shared_ptr<const Leaf>> Get(const std::string& name, Make make, int32_t boundary = -1,
                                                  bool free_text = false, std::optional<Spelling> counted = {}) {
    {
      base::MutexLock lock(mu_);
      if (const auto found = leaves_.find(name); found != leaves_.end()) {
        if (std::shared_ptr<const Leaf> leaf = found->second.lock()) return leaf;
      }
    }
    absl::StatusOr<Dfa> dfa = make();
    if (!dfa.ok()) return dfa.status();
    auto leaf = std::make_shared<Leaf>(*std::move(dfa), budget_);
    leaf->boundary = boundary;
    leaf->free_text = free_text;
    if (counted.has_value()) {
      leaf->counts = CountCharacters(leaf->dfa, *counted);
      for (const uint32_t characters : leaf->counts.finish) {
        leaf->longest_finish = std::max(leaf->longest_finish, characters);
      }
    }
    base::MutexLock lock(mu_);
    leaves_[name] = leaf;
    if (leaves_.size() > 2 * living_ + 1000) {
      std::erase_if(leaves_, [](const auto& entry) { return entry.second.expired(); });
      living_ = leaves_.size();
    }
    return std::shared_ptr<const Leaf>(std::move(leaf));
  }

  const std::shared_ptr<MaskBudget>& budget() const { return budget_; }

 private:
  const std::shared_ptr<MaskBudget> budget_;
  base::Mutex mu_;
  std::map<std::string, std::weak_ptr<const Leaf>> leaves_ ABSL_GUARDED_BY(mu_);
  size_t living_ ABSL_GUARDED_BY(mu_) = 0;  // when it was last gone through
};

// Puts a program together.
class ProgramBuilder {
 public:
  // All outlive the builder.
  ProgramBuilder(std::shared_ptr<const Vocabulary> vocabulary, LeafPool& pool, Budget& budget);

  absl::StatusOr<int32_t> AddState();
  // A new rule without edges; its start.
  absl::StatusOr<int32_t> AddRule();
  int32_t StartOf(int32_t rule) const { return program_->rule_starts[rule]; }
  void SetAccepting(int32_t state) { program_->states[state].accepting = true; }
  // Once each, however often it is added.
  absl::Status AddEdge(int32_t from, Edge edge);
  // From `from` to `to`, all that leads from `like` to `like_to`.
  absl::Status CopyEdges(int32_t like, int32_t like_to, int32_t from, int32_t to);
  size_t EdgesOf(int32_t state) const { return program_->states[state].edges.size(); }
  // An edge over a leaf; none if the leaf accepts nothing. REQUIRES: it does not accept the empty text.
  absl::Status AddLeaf(int32_t from, int32_t to, const std::shared_ptr<const Leaf>& leaf, uint32_t min_chars = 0,
                       uint32_t max_chars = kNoLimit);

  // The state behind `text` from `from`, with the atomic tokens in it as the tokenizer would find them: leftmost,
  // longest first.
  absl::StatusOr<int32_t> AddLiteral(int32_t from, std::string_view text);

  LeafPool& pool() { return pool_; }
  Budget& budget() { return budget_; }
  const Vocabulary& vocabulary() const { return *program_->vocabulary; }

  // Takes out what leads nowhere, and makes one leaf of many that lead from one state to another, so that a mask walks
  // over the vocabulary once. INVALID_ARGUMENT if nothing is left, or if more than kMaxPlaces may begin at one state.
  absl::StatusOr<std::shared_ptr<const Program>> Finish() &&;

 private:
  absl::Status UniteLeaves();
  std::shared_ptr<const Leaf> UnionOf(const std::vector<int32_t>& leaves);
  absl::Status CheckPlaces() const;

  LeafPool& pool_;
  Budget& budget_;
  std::shared_ptr<Program> program_;
  std::map<const Leaf*, int32_t> leaf_numbers_;
  std::map<std::pair<int32_t, Edge>, bool> seen_;
};

}  // namespace ingot::grammar
