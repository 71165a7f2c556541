// Finite automata over bytes: the leaves of a grammar. Built as an Nfa, run as a Dfa.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ingot::grammar {

// The work and memory that compiling one grammar may take. All parts of a compilation share one budget and count it
// down, so even hostile input cannot take more.
struct Budget {
  int64_t nfa_states = 2'000'000;
  int64_t dfa_cells = 4'000'000;  // per state: byte classes + NFA states in it; 4 bytes each
  int64_t program_states = 200'000;
  int64_t steps = 40'000'000;  // of all loops whose length depends on the input; about half a second in total

  // Subtracts `amount` from `counter`. INVALID_ARGUMENT "the grammar is too complex: `what`" if the result is negative.
  static absl::Status Spend(int64_t& counter, int64_t amount, const char* what);

  // Halves `budget` during its lifetime, so that a failed attempt leaves enough for another attempt.
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
  // Adds a path that accepts `text` from `from`; returns its last state.
  int32_t AddText(int32_t from, std::string_view text);

  const State& state(int32_t id) const { return states_[id]; }
  int32_t size() const { return static_cast<int32_t>(states_.size()); }

 private:
  std::vector<State> states_;
};

// A deterministic automaton, trimmed: every state reaches an accepting state. It starts at state 0; empty() if it
// accepts nothing. Immutable, thread safe.
struct Dfa {
  std::array<uint8_t, 256> classes{};  // bytes that are equal in every state share a class
  int32_t class_count = 1;
  std::vector<int32_t> next;       // [state * class_count + class]; -1 = no edge
  std::vector<uint8_t> accepting;  // [state]
  std::vector<uint8_t> final;      // [state]: 1 = no edge leaves it

  bool empty() const { return accepting.empty(); }
  int32_t size() const { return static_cast<int32_t>(accepting.size()); }
  int32_t Next(int32_t state, uint8_t byte) const {
    return next[static_cast<size_t>(state) * class_count + classes[byte]];
  }
  bool Accepts(std::string_view text) const;
};

// Adds `dfa` at `from`; returns the state after every text that it accepts.
int32_t AddDfa(Nfa& nfa, int32_t from, const Dfa& dfa);
absl::StatusOr<Dfa> Determinize(const Nfa& nfa, int32_t start, int32_t accept, Budget& budget);
// Every text that ends with its first occurrence of `text`. REQUIRES: `text` is not empty.
Dfa UntilDfa(std::string_view text);
// Intersect: the texts that both accept. Difference: the texts that only `a` accepts.
absl::StatusOr<Dfa> Intersect(const Dfa& a, const Dfa& b, Budget& budget);
absl::StatusOr<Dfa> Difference(const Dfa& a, const Dfa& b, Budget& budget);
// `content` between two quotation marks `mark`. REQUIRES: no accepting state of `content` has an edge by `mark`, except
// after a backslash.
Dfa Quote(const Dfa& content, char mark = '"');

}  // namespace ingot::grammar
