#include "grammar/dfa.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace ingot::grammar {

namespace {

// Numbers the byte classes. cuts[b] = byte b differs from byte b - 1.
void AssignClasses(const std::array<bool, 257>& cuts, Dfa* dfa) {
  int current = 0;
  for (int byte = 0; byte < 256; ++byte) {
    if (byte > 0 && cuts[byte]) ++current;
    dfa->classes[byte] = static_cast<uint8_t>(current);
  }
  dfa->class_count = current + 1;
}

// Removes states that cannot reach an accepting state, and renumbers the others. State 0 stays the start.
void Trim(Dfa* dfa) {
  const int32_t states = dfa->size(), width = dfa->class_count;
  std::vector<std::vector<int32_t>> before(states);
  for (int32_t from = 0; from < states; ++from) {
    for (int32_t c = 0; c < width; ++c) {
      const int32_t to = dfa->next[static_cast<size_t>(from) * width + c];
      if (to >= 0 && (before[to].empty() || before[to].back() != from)) before[to].push_back(from);
    }
  }
  std::vector<uint8_t> live = dfa->accepting;
  std::vector<int32_t> queue;
  for (int32_t s = 0; s < states; ++s) {
    if (live[s]) queue.push_back(s);
  }
  while (!queue.empty()) {
    const int32_t s = queue.back();
    queue.pop_back();
    for (const int32_t from : before[s]) {
      if (!std::exchange(live[from], 1)) queue.push_back(from);
    }
  }
  if (states == 0 || !live[0]) {
    dfa->next.clear();
    dfa->accepting.clear();
    dfa->final.clear();
    return;
  }
  std::vector<int32_t> number(states, -1);
  int32_t count = 0;
  for (int32_t s = 0; s < states; ++s) {
    if (live[s]) number[s] = count++;
  }
  std::vector<int32_t> next(static_cast<size_t>(count) * width, -1);
  std::vector<uint8_t> accepting(count), final(count, 1);
  for (int32_t s = 0; s < states; ++s) {
    if (!live[s]) continue;
    accepting[number[s]] = dfa->accepting[s];
    for (int32_t c = 0; c < width; ++c) {
      const int32_t to = dfa->next[static_cast<size_t>(s) * width + c];
      if (to < 0 || !live[to]) continue;
      next[static_cast<size_t>(number[s]) * width + c] = number[to];
      final[number[s]] = 0;
    }
  }
  dfa->next = std::move(next);
  dfa->accepting = std::move(accepting);
  dfa->final = std::move(final);
}

// Subset construction.
class Determinizer {
 public:
  Determinizer(const Nfa& nfa, int32_t accept, Budget& budget)
      : nfa_(nfa), accept_(accept), budget_(budget), mark_(nfa.size(), 0) {}

  absl::StatusOr<Dfa> Run(int32_t start) {
    std::array<bool, 257> cuts{};
    for (int32_t s = 0; s < nfa_.size(); ++s) {
      for (const Nfa::ByteEdge& edge : nfa_.state(s).bytes) cuts[edge.low] = cuts[edge.high + 1] = true;
    }
    AssignClasses(cuts, &dfa_);
    representative_.assign(dfa_.class_count, 0);
    for (int byte = 255; byte >= 0; --byte) representative_[dfa_.classes[byte]] = static_cast<uint8_t>(byte);
    std::vector<int32_t> first = Close({start}, /*at_start=*/true, /*at_end=*/false);
    const std::vector<int32_t> first_at_end = Close({start}, true, true);
    INGOT_RETURN_IF_ERROR(NumberOf(std::move(first)).status());
    if (std::binary_search(first_at_end.begin(), first_at_end.end(), accept_)) dfa_.accepting[0] = 1;
    for (size_t i = 0; i < sets_.size(); ++i) INGOT_RETURN_IF_ERROR(AddTransitions(i));
    Trim(&dfa_);
    return std::move(dfa_);
  }

 private:
  std::vector<int32_t> Close(std::vector<int32_t> set, bool at_start, bool at_end) {
    ++stamp_;
    for (const int32_t s : set) mark_[s] = stamp_;
    for (size_t i = 0; i < set.size(); ++i) {
      for (const Nfa::EpsilonEdge& edge : nfa_.state(set[i]).epsilons) {
        if (edge.kind == Nfa::Epsilon::kAtStart && !at_start) continue;
        if (edge.kind == Nfa::Epsilon::kAtEnd && !at_end) continue;
        if (std::exchange(mark_[edge.target], stamp_) != stamp_) set.push_back(edge.target);
      }
    }
    std::sort(set.begin(), set.end());
    return set;
  }

  absl::StatusOr<int32_t> NumberOf(std::vector<int32_t> set) {
    const auto [it, fresh] = numbers_.try_emplace(std::move(set), static_cast<int32_t>(sets_.size()));
    if (!fresh) return it->second;
    INGOT_RETURN_IF_ERROR(Budget::Spend(budget_.dfa_cells, dfa_.class_count + static_cast<int64_t>(it->first.size()),
                                        "an automaton has too many states"));
    sets_.push_back(&it->first);
    const std::vector<int32_t> at_end = Close(it->first, false, true);
    dfa_.accepting.push_back(std::binary_search(at_end.begin(), at_end.end(), accept_));
    dfa_.next.insert(dfa_.next.end(), dfa_.class_count, -1);
    return it->second;
  }

  absl::Status AddTransitions(size_t number) {
    for (int32_t c = 0; c < dfa_.class_count; ++c) {
      const uint8_t byte = representative_[c];
      ++stamp_;
      std::vector<int32_t> targets;
      for (const int32_t s : *sets_[number]) {
        for (const Nfa::ByteEdge& edge : nfa_.state(s).bytes) {
          if (byte < edge.low || byte > edge.high) continue;
          if (std::exchange(mark_[edge.target], stamp_) != stamp_) targets.push_back(edge.target);
        }
      }
      INGOT_RETURN_IF_ERROR(Budget::Spend(budget_.steps, static_cast<int64_t>(sets_[number]->size()) / 4 + 1,
                                          "an automaton takes too long to build"));
      if (targets.empty()) continue;
      std::vector<int32_t> closed = Close(std::move(targets), false, false);
      INGOT_RETURN_IF_ERROR(
          Budget::Spend(budget_.steps, static_cast<int64_t>(closed.size()), "an automaton takes too long to build"));
      INGOT_ASSIGN_OR_RETURN(const int32_t to, NumberOf(std::move(closed)));
      dfa_.next[number * dfa_.class_count + c] = to;
    }
    return absl::OkStatus();
  }

  const Nfa& nfa_;
  const int32_t accept_;
  Budget& budget_;
  Dfa dfa_;
  std::vector<uint8_t> representative_;
  std::map<std::vector<int32_t>, int32_t> numbers_;
  std::vector<const std::vector<int32_t>*> sets_;
  std::vector<int32_t> mark_;
  int32_t stamp_ = 0;
};

// Returns the product automaton for the intersection or the difference. In a difference, a pair may leave `b` (state
// -1).
absl::StatusOr<Dfa> Product(const Dfa& a, const Dfa& b, bool difference, Budget& budget) {
  Dfa out;
  if (a.empty()) return out;
  std::array<bool, 257> cuts{};
  for (int byte = 1; byte < 256; ++byte) {
    cuts[byte] = a.classes[byte] != a.classes[byte - 1] || (!b.empty() && b.classes[byte] != b.classes[byte - 1]);
  }
  AssignClasses(cuts, &out);
  absl::flat_hash_map<std::pair<int32_t, int32_t>, int32_t> numbers;
  std::vector<std::pair<int32_t, int32_t>> pairs;
  const auto number_of = [&](std::pair<int32_t, int32_t> pair) {
    const auto [it, fresh] = numbers.try_emplace(pair, static_cast<int32_t>(pairs.size()));
    if (fresh) {
      pairs.push_back(pair);
      const bool in_b = pair.second >= 0 && b.accepting[pair.second];
      out.accepting.push_back(a.accepting[pair.first] && in_b != difference);
      out.next.insert(out.next.end(), out.class_count, -1);
    }
    return it->second;
  };
  number_of({0, b.empty() ? -1 : 0});
  for (size_t i = 0; i < pairs.size(); ++i) {
    INGOT_RETURN_IF_ERROR(Budget::Spend(budget.dfa_cells, out.class_count, "an automaton has too many states"));
    const auto [in_a, in_b] = pairs[i];
    for (int byte = 0; byte < 256; ++byte) {
      if (byte > 0 && !cuts[byte]) continue;
      const int32_t to_a = a.Next(in_a, static_cast<uint8_t>(byte));
      const int32_t to_b = in_b < 0 ? -1 : b.Next(in_b, static_cast<uint8_t>(byte));
      if (to_a < 0 || (to_b < 0 && !difference)) continue;
      const int32_t to = number_of({to_a, to_b});
      out.next[i * out.class_count + out.classes[byte]] = to;
    }
  }
  Trim(&out);
  return out;
}

}  // namespace

absl::Status Budget::Spend(int64_t& counter, int64_t amount, const char* what) {
  counter -= amount;
  if (counter >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the grammar is too complex: ", what));
}

int32_t Nfa::AddState() {
  states_.emplace_back();
  return size() - 1;
}

int32_t Nfa::AddText(int32_t from, std::string_view text) {
  for (const char c : text) {
    const int32_t to = AddState();
    AddByte(from, static_cast<uint8_t>(c), static_cast<uint8_t>(c), to);
    from = to;
  }
  return from;
}

bool Dfa::Accepts(std::string_view text) const {
  if (empty()) return false;
  int32_t state = 0;
  for (const char c : text) {
    state = Next(state, static_cast<uint8_t>(c));
    if (state < 0) return false;
  }
  return accepting[state];
}

absl::StatusOr<Dfa> Determinize(const Nfa& nfa, int32_t start, int32_t accept, Budget& budget) {
  INGOT_RETURN_IF_ERROR(Budget::Spend(budget.nfa_states, nfa.size(), "its patterns and literals are too long"));
  return Determinizer(nfa, accept, budget).Run(start);
}

// Returns the Knuth-Morris-Pratt automaton.
Dfa UntilDfa(std::string_view text) {
  Dfa dfa;
  const auto size = static_cast<int32_t>(text.size());
  std::array<bool, 256> used{};
  for (const char c : text) used[static_cast<uint8_t>(c)] = true;
  dfa.class_count = 1;  // class 0: bytes that are not in `text`
  for (int byte = 0; byte < 256; ++byte) {
    if (used[byte]) dfa.classes[byte] = static_cast<uint8_t>(dfa.class_count++);
  }
  dfa.next.assign(static_cast<size_t>(size + 1) * dfa.class_count, -1);
  dfa.accepting.assign(size + 1, 0);
  dfa.final.assign(size + 1, 0);
  dfa.accepting[size] = dfa.final[size] = 1;
  int32_t fallback = 0;  // the state after text[1 .. s)
  for (int32_t s = 0; s < size; ++s) {
    const auto row = dfa.next.begin() + static_cast<ptrdiff_t>(s) * dfa.class_count;
    if (s == 0) {
      std::fill_n(row, dfa.class_count, 0);
    } else {
      std::copy_n(dfa.next.begin() + static_cast<ptrdiff_t>(fallback) * dfa.class_count, dfa.class_count, row);
      fallback = dfa.Next(fallback, static_cast<uint8_t>(text[s]));
    }
    row[dfa.classes[static_cast<uint8_t>(text[s])]] = s + 1;
  }
  return dfa;
}

int32_t AddDfa(Nfa& nfa, int32_t from, const Dfa& dfa) {
  const int32_t accept = nfa.AddState();
  std::vector<int32_t> states(dfa.size());
  for (int32_t& state : states) state = nfa.AddState();
  if (!dfa.empty()) nfa.AddEpsilon(from, states[0]);
  for (int32_t s = 0; s < dfa.size(); ++s) {
    if (dfa.accepting[s]) nfa.AddEpsilon(states[s], accept);
    for (int low = 0, high = 0; low < 256; low = high + 1) {
      const int32_t to = dfa.Next(s, static_cast<uint8_t>(low));
      for (high = low; high < 255 && dfa.Next(s, static_cast<uint8_t>(high + 1)) == to;) ++high;
      if (to >= 0) nfa.AddByte(states[s], static_cast<uint8_t>(low), static_cast<uint8_t>(high), states[to]);
    }
  }
  return accept;
}

absl::StatusOr<Dfa> Intersect(const Dfa& a, const Dfa& b, Budget& budget) {
  return Product(a, b, /*difference=*/false, budget);
}

absl::StatusOr<Dfa> Difference(const Dfa& a, const Dfa& b, Budget& budget) {
  return Product(a, b, /*difference=*/true, budget);
}

Dfa Quote(const Dfa& content, char mark_byte) {
  Dfa out;
  if (content.empty()) return out;
  // The quotation mark gets its own class. The first and last states are new, and the content's states move up by one.
  out.classes = content.classes;
  const int32_t mark = out.class_count = content.class_count;
  out.classes[static_cast<uint8_t>(mark_byte)] = static_cast<uint8_t>(mark);
  ++out.class_count;
  const int32_t last = content.size() + 1;
  out.next.assign(static_cast<size_t>(last + 1) * out.class_count, -1);
  out.accepting.assign(last + 1, 0);
  out.final.assign(last + 1, 0);
  out.accepting[last] = out.final[last] = 1;
  out.next[mark] = 1;
  for (int32_t s = 0; s < content.size(); ++s) {
    int32_t* row = &out.next[static_cast<size_t>(s + 1) * out.class_count];
    for (int32_t c = 0; c < content.class_count; ++c) {
      const int32_t to = content.next[static_cast<size_t>(s) * content.class_count + c];
      row[c] = to < 0 ? -1 : to + 1;
    }
    const int32_t within = content.Next(s, static_cast<uint8_t>(mark_byte));
    row[mark] = content.accepting[s] ? last : within < 0 ? -1 : within + 1;
  }
  return out;
}

}  // namespace ingot::grammar
