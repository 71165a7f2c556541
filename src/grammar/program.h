// Represents a compiled grammar as a pushdown automaton. An edge consumes an entire leaf (a finite automaton over
// bytes), calls a rule, or consumes one atomic token.
//
//   program --> rules (the root, and one per JSON object or array) --> states --edges--> leaves, rules, atoms
//
// Only rules are recursive, and every rule except the root begins with a bracket. So rules nest exactly as deeply as
// the JSON, which has at most kMaxNesting levels. Each state stores how many levels are needed to reach the end of its
// rule. The program never enters a state from which it cannot reach the end within the limit.
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

// Maximum nesting of objects and arrays in sampled text.
inline constexpr int32_t kMaxNesting = 64;
inline constexpr uint32_t kNoLimit = UINT32_MAX;
// Maximum number of places in a position.
inline constexpr size_t kMaxPlaces = 4096;

// Memory limit for all masks in one engine. Thread safe.
struct MaskBudget {
  const int64_t limit_bytes = int64_t{256} << 20;
  std::atomic<int64_t> used_bytes{0};
};

// Caches masks by key. When the budget is exhausted, drops all of its masks at once. Thread safe.
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

// A finite automaton with its states' masks. Shared by all grammars that use it.
struct Leaf {
  // tokens = tokens that stay within the leaf or end with it. exits = trie nodes where the leaf may end inside a token.
  struct Mask {
    TokenSet tokens;
    std::vector<uint32_t> exits;
  };
  // (state, characters still required, characters still allowed). The counts are capped where larger values make no
  // difference for any token.
  using Key = std::tuple<int32_t, uint32_t, uint32_t>;

  // A state's mask for all possible character counts, in a leaf that counts characters.
  struct Profile {
    struct Item {
      int32_t at;            // the token or, for an exit, the trie node
      uint8_t room, filled;  // characters that the token starts and completes
    };
    std::vector<Item> within;  // tokens that end inside the string, sorted by room
    std::vector<Item> whole;   // tokens that end with the string
    std::vector<Item> exits;   // in trie order
  };

  Leaf(Dfa automaton, const std::shared_ptr<MaskBudget>& budget)
      : dfa(std::move(automaton)), masks(budget), profiles(budget) {}

  const Dfa dfa;
  int32_t boundary = -1;   // in leaves that count characters, the state between two characters; -1 = does not count
  bool free_text = false;  // true = also consumes atomic tokens, byte by byte
  // By state, if a maximum length is counted outside a pattern's automaton; otherwise empty.
  CharacterCounts counts;
  uint32_t longest_finish = 0;  // maximum of counts.finish
  mutable MaskCache<Key, Mask> masks;
  mutable MaskCache<int32_t, Profile> profiles;  // by state
};

struct Edge {
  enum Kind : uint8_t {
    kEpsilon,
    kLeaf,  // leaves[arg], with minimum and maximum characters if it counts them
    kRule,  // calls the rule at rule_starts[arg]
    kAtom,  // consumes the token `arg`
  } kind = kEpsilon;
  int32_t arg = 0;
  int32_t target = 0;
  uint32_t min_chars = 0, max_chars = kNoLimit;
  auto operator<=>(const Edge&) const = default;
};

struct State {
  std::vector<Edge> edges;
  bool accepting = false;  // the rule may end here
  int32_t need = 0;        // minimum number of nested rules needed to reach the end of this rule
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

// Finds leaves by name, so that grammars in use share equal leaves. Thread safe.
class LeafPool {
 public:
  explicit LeafPool(std::shared_ptr<MaskBudget> budget) : budget_(std::move(budget)) {}

  // Returns the leaf with this name, and builds it with `make` (which returns StatusOr<Dfa>) if it does not exist. The
  // name must determine the automaton and the other arguments. `counted` is the spelling of a string whose characters
  // are counted.
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
  size_t living_ ABSL_GUARDED_BY(mu_) = 0;  // number of leaves after the last removal of expired leaves
};

// Builds a program.
class ProgramBuilder {
 public:
  // REQUIRES: all arguments outlive the builder.
  ProgramBuilder(std::shared_ptr<const Vocabulary> vocabulary, LeafPool& pool, Budget& budget);

  absl::StatusOr<int32_t> AddState();
  // Adds a rule without edges and returns its index.
  absl::StatusOr<int32_t> AddRule();
  int32_t StartOf(int32_t rule) const { return program_->rule_starts[rule]; }
  void SetAccepting(int32_t state) { program_->states[state].accepting = true; }
  // Adds the edge. Has no effect if it already exists.
  absl::Status AddEdge(int32_t from, Edge edge);
  // For every edge from `like` to `like_to`, adds a copy from `from` to `to`.
  absl::Status CopyEdges(int32_t like, int32_t like_to, int32_t from, int32_t to);
  size_t EdgesOf(int32_t state) const { return program_->states[state].edges.size(); }
  // Adds an edge with the leaf, unless the leaf accepts nothing. REQUIRES: the leaf does not accept the empty string.
  absl::Status AddLeaf(int32_t from, int32_t to, const std::shared_ptr<const Leaf>& leaf, uint32_t min_chars = 0,
                       uint32_t max_chars = kNoLimit);

  // Adds a path that consumes `text`, and returns its last state. Finds atomic tokens in `text` as the tokenizer does:
  // leftmost first, then longest.
  absl::StatusOr<int32_t> AddLiteral(int32_t from, std::string_view text);

  LeafPool& pool() { return pool_; }
  Budget& budget() { return budget_; }
  const Vocabulary& vocabulary() const { return *program_->vocabulary; }

  // Removes edges that cannot reach an end. If there are many leaves between the same two states, merges them into one,
  // so that a mask walks the vocabulary once. Returns INVALID_ARGUMENT if the grammar allows no text, or if more than
  // kMaxPlaces leaves may begin at one state.
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
