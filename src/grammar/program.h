// A compiled grammar: a pushdown automaton. An edge consumes a whole leaf (a finite automaton over bytes), calls a
// rule, or consumes one atomic token.
//
//   program --> rules (the root, and one per JSON object or array) --> states --edges--> leaves, rules, atoms
//
// Only rules recurse, and every rule except the root begins with a bracket. So rules nest as deep as the JSON does, at
// most kMaxNesting levels. Each state knows how many levels it needs to reach the end of its rule. The program never
// enters a state that it cannot leave within the limit.
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

// The deepest nesting of objects and arrays in a sampled text.
inline constexpr int32_t kMaxNesting = 64;
inline constexpr uint32_t kNoLimit = UINT32_MAX;
// The most places that a position may have.
inline constexpr size_t kMaxPlaces = 4096;

// The memory that all masks of one engine may take. Thread safe.
struct MaskBudget {
  const int64_t limit_bytes = int64_t{256} << 20;
  std::atomic<int64_t> used_bytes{0};
};

// Masks by key. When the budget is used up, the cache drops all its masks at once. Thread safe.
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

// A finite automaton with the masks of its states, shared by all grammars that use it.
struct Leaf {
  // tokens: tokens that stay within the leaf or end with it. exits: trie nodes where the leaf may end inside a token.
  struct Mask {
    TokenSet tokens;
    std::vector<uint32_t> exits;
  };
  // (state, characters still required, characters still allowed). The counts are capped where the difference affects no
  // token.
  using Key = std::tuple<int32_t, uint32_t, uint32_t>;

  // The mask of a state for any character counts, in a leaf that counts characters.
  struct Profile {
    struct Item {
      int32_t at;            // the token; for an exit, the trie node
      uint8_t room, filled;  // characters that the token begins and completes
    };
    std::vector<Item> within;  // tokens that end inside the string, by ascending room
    std::vector<Item> whole;   // tokens that end with the string
    std::vector<Item> exits;   // in the order of the trie
  };

  Leaf(Dfa automaton, const std::shared_ptr<MaskBudget>& budget)
      : dfa(std::move(automaton)), masks(budget), profiles(budget) {}

  const Dfa dfa;
  int32_t boundary = -1;   // the state between two characters of a string that counts them; -1 = does not count
  bool free_text = false;  // also takes atomic tokens, byte by byte
  // By state, if a maximum length is counted outside a pattern's automaton; else empty.
  CharacterCounts counts;
  uint32_t longest_finish = 0;  // the largest of counts.finish
  mutable MaskCache<Key, Mask> masks;
  mutable MaskCache<int32_t, Profile> profiles;  // by state
};

struct Edge {
  enum Kind : uint8_t {
    kEpsilon,
    kLeaf,  // leaves[arg], with a minimum and maximum of characters if it counts them
    kRule,  // calls the rule at rule_starts[arg]
    kAtom,  // takes the token `arg`
  } kind = kEpsilon;
  int32_t arg = 0;
  int32_t target = 0;
  uint32_t min_chars = 0, max_chars = kNoLimit;
  auto operator<=>(const Edge&) const = default;
};

struct State {
  std::vector<Edge> edges;
  bool accepting = false;  // the rule may end here
  int32_t need = 0;        // the fewest levels of rules needed to reach the end of this rule
};

// Immutable except for its masks. Thread safe.
struct Program {
  Program(std::shared_ptr<const Vocabulary> v, std::shared_ptr<MaskBudget> budget)
      : vocabulary(std::move(v)), masks(std::move(budget)) {}

  const std::shared_ptr<const Vocabulary> vocabulary;
  std::vector<State> states;
  std::vector<std::shared_ptr<const Leaf>> leaves;
  std::vector<int32_t> rule_starts;  // rule 0 is the root
  mutable MaskCache<std::vector<uint32_t>, TokenSet> masks;
};

// Leaves by name. Grammars in use share equal leaves. Thread safe.
class LeafPool {
 public:
  explicit LeafPool(std::shared_ptr<MaskBudget> budget) : budget_(std::move(budget)) {}

  // The leaf with this name; `make` (which returns StatusOr<Dfa>) builds it if it is missing. The name must determine
  // the automaton and the other arguments. `counted`: the spelling of a string whose characters are counted.
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
  size_t living_ ABSL_GUARDED_BY(mu_) = 0;  // after the last removal of expired leaves
};

// Builds a program.
class ProgramBuilder {
 public:
  // All arguments outlive the builder.
  ProgramBuilder(std::shared_ptr<const Vocabulary> vocabulary, LeafPool& pool, Budget& budget);

  absl::StatusOr<int32_t> AddState();
  // Adds a rule without edges; returns its number.
  absl::StatusOr<int32_t> AddRule();
  int32_t StartOf(int32_t rule) const { return program_->rule_starts[rule]; }
  void SetAccepting(int32_t state) { program_->states[state].accepting = true; }
  // Adds the edge; repeated calls have no effect.
  absl::Status AddEdge(int32_t from, Edge edge);
  // Adds a copy of every edge from `like` to `like_to`, leading from `from` to `to`.
  absl::Status CopyEdges(int32_t like, int32_t like_to, int32_t from, int32_t to);
  size_t EdgesOf(int32_t state) const { return program_->states[state].edges.size(); }
  // Adds an edge over a leaf, unless the leaf accepts nothing. REQUIRES: the leaf does not accept the empty text.
  absl::Status AddLeaf(int32_t from, int32_t to, const std::shared_ptr<const Leaf>& leaf, uint32_t min_chars = 0,
                       uint32_t max_chars = kNoLimit);

  // Adds a path that takes `text`; returns its last state. Atomic tokens in `text` are found as the tokenizer finds
  // them: leftmost first, then longest.
  absl::StatusOr<int32_t> AddLiteral(int32_t from, std::string_view text);

  LeafPool& pool() { return pool_; }
  Budget& budget() { return budget_; }
  const Vocabulary& vocabulary() const { return *program_->vocabulary; }

  // Removes edges that cannot reach an end, and merges many leaves between the same two states into one leaf, so that a
  // mask walks the vocabulary once. INVALID_ARGUMENT if the grammar allows no text, or if more than kMaxPlaces leaves
  // may begin at one state.
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
