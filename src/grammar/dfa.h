// Builds the finite automata over bytes that are a grammar's leaves. They are built as Nfas and executed as Dfas.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ingot::grammar {

// Limits the work and memory of compiling one grammar. All parts of a compilation share the budget, so even malicious
// input cannot exceed it.
struct Budget {
  int64_t nfa_states = 2'000'000;
  int64_t dfa_cells = 4'000'000;  // per state: byte classes + its NFA states, 4 bytes each
  int64_t program_states = 200'000;
  int64_t steps = 40'000'000;  // steps of all loops whose length depends on the input; about half a second in total

  // Subtracts `amount` from `counter`. Returns INVALID_ARGUMENT "the grammar is too complex: `what`" if the result is
  // negative.
  static absl::Status Spend(int64_t& counter, int64_t amount, const char* what);

  // Halves the budget while this object exists, so that enough is left for another attempt if the first fails.
  class Share;
};

class Budget::Share {
 public:
  explicit Share(Budget& budget)
      : budget_(budget),
        kept_{budget.nfa_states / 2, budget.dfa_cells / 2, budget.program_states / 2, budget.steps / 2} {
    ForEach([](int64_t& left, int64_t kept) { left -= kept; });
  }
  ~Share() {
    ForEach([](int64_t& left, int64_t kept) { left = (left < 0 ? 0 : left) + kept; });
  }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;

 private:
  template <typename F>
  void ForEach(F f) {
    f(budget_.nfa_states, kept_.nfa_states);
    f(budget_.dfa_cells, kept_.dfa_cells);
    f(budget_.program_states, kept_.program_states);
    f(budget_.steps, kept_.steps);
  }

  Budget& budget_;
  const Budget kept_;
};

// A nondeterministic automaton with epsilon edges and the two assertions of regular expressions.
class Nfa {
 public:
  enum class Epsilon : uint8_t {
    kAlways,
    kAtStart,  // only before the first byte
    kAtEnd,    // only after the last byte
  };
  struct ByteEdge {
    uint8_t low, high;  // inclusive
    int32_t target;
  };
  struct EpsilonEdge {
    Epsilon kind;
    int32_t target;
  };
  struct State {
    std::vector<ByteEdge> bytes;
    std::vector<EpsilonEdge> epsilons;
  };

  int32_t AddState();
  void AddByte(int32_t from, uint8_t low, uint8_t high, int32_t to) { states_[from].bytes.push_back({low, high, to}); }
  void AddEpsilon(int32_t from, int32_t to, Epsilon kind = Epsilon::kAlways) {
    states_[from].epsilons.push_back({kind, to});
  }
  // Adds a path from `from` that accepts `text`, and returns its last state.
  int32_t AddText(int32_t from, std::string_view text);

  const State& state(int32_t id) const { return states_[id]; }
  int32_t size() const { return static_cast<int32_t>(states_.size()); }

 private:
  std::vector<State> states_;
};

// A deterministic automaton. It is trimmed, so every state can reach an accepting state. Starts at state 0. empty()
// means that it accepts nothing. Immutable and thread safe.
struct Dfa {
  std::array<uint8_t, 256> classes{};  // bytes that behave the same in every state share a class
  int32_t class_count = 1;
  std::vector<int32_t> next;       // [state * class_count + class]; -1 = no edge
  std::vector<uint8_t> accepting;  // [state]
  std::vector<uint8_t> final;      // [state]: 1 = no outgoing edges

  bool empty() const { return accepting.empty(); }
  int32_t size() const { return static_cast<int32_t>(accepting.size()); }
  int32_t Next(int32_t state, uint8_t byte) const {
    return next[static_cast<size_t>(state) * class_count + classes[byte]];
  }
  bool Accepts(std::string_view text) const;
};

// Adds `dfa` at `from`. Returns the state reached after any accepted string.
int32_t AddDfa(Nfa& nfa, int32_t from, const Dfa& dfa);
absl::StatusOr<Dfa> Determinize(const Nfa& nfa, int32_t start, int32_t accept, Budget& budget);
// Returns an automaton that accepts every string that ends with its first occurrence of `text`. REQUIRES: `text` is not
// empty.
Dfa UntilDfa(std::string_view text);
// Return an automaton that accepts the strings that both accept (Intersect), or that only `a` accepts (Difference).
absl::StatusOr<Dfa> Intersect(const Dfa& a, const Dfa& b, Budget& budget);
absl::StatusOr<Dfa> Difference(const Dfa& a, const Dfa& b, Budget& budget);
// Encloses `content` in quotation marks `mark`. REQUIRES: no accepting state of `content` has an edge for `mark`,
// except after a backslash.
Dfa Quote(const Dfa& content, char mark = '"');

}  // namespace ingot::grammar
