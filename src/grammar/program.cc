#include "grammar/program.h"

#include <algorithm>
#include <utility>

namespace ingot::grammar {

namespace {

constexpr int32_t kNever = INT32_MAX;

// Levels that an edge and what follows it need.
int32_t NeedOf(const Program& program, const Edge& edge) {
  int32_t call = 0;
  if (edge.kind == Edge::kRule) {
    const int32_t inside = program.states[program.rule_starts[edge.arg]].need;
    call = inside == kNever ? kNever : inside + 1;
  }
  return std::max(call, program.states[edge.target].need);
}

// The least fixed point: from "never" down, until nothing changes, each change waking what depends on it.
absl::Status ComputeNeeds(Program* program, Budget& budget) {
  std::vector<State>& states = program->states;
  std::vector<std::vector<int32_t>> dependents(states.size());
  std::vector<int32_t> queue;
  for (size_t s = 0; s < states.size(); ++s) {
    states[s].need = states[s].accepting ? 0 : kNever;
    if (states[s].accepting) queue.push_back(static_cast<int32_t>(s));
    for (const Edge& edge : states[s].edges) {
      dependents[edge.target].push_back(static_cast<int32_t>(s));
      if (edge.kind == Edge::kRule) dependents[program->rule_starts[edge.arg]].push_back(static_cast<int32_t>(s));
    }
  }
  while (!queue.empty()) {
    const int32_t changed = queue.back();
    queue.pop_back();
    for (const int32_t s : dependents[changed]) {
      INGOT_RETURN_IF_ERROR(Budget::Spend(budget.steps, 1 + static_cast<int64_t>(states[s].edges.size()) / 8,
                                          "its rules depend on one another too much"));
      int32_t least = states[s].need;
      for (const Edge& edge : states[s].edges) least = std::min(least, NeedOf(*program, edge));
      if (least < states[s].need) {
        states[s].need = least;
        queue.push_back(s);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

ProgramBuilder::ProgramBuilder(std::shared_ptr<const Vocabulary> vocabulary, LeafPool& pool, Budget& budget)
    : pool_(pool), budget_(budget), program_(std::make_shared<Program>(std::move(vocabulary), pool.budget())) {}

absl::StatusOr<int32_t> ProgramBuilder::AddState() {
  INGOT_RETURN_IF_ERROR(Budget::Spend(budget_.program_states, 1, "it has too many parts"));
  program_->states.emplace_back();
  return static_cast<int32_t>(program_->states.size()) - 1;
}

absl::StatusOr<int32_t> ProgramBuilder::AddRule() {
  INGOT_ASSIGN_OR_RETURN(const int32_t start, AddState());
  program_->rule_starts.push_back(start);
  return static_cast<int32_t>(program_->rule_starts.size()) - 1;
}

absl::Status ProgramBuilder::AddEdge(int32_t from, Edge edge) {
  if (!seen_.try_emplace({from, edge}, true).second) return absl::OkStatus();
  INGOT_RETURN_IF_ERROR(Budget::Spend(budget_.program_states, 1, "it has too many parts"));
  program_->states[from].edges.push_back(edge);
  return absl::OkStatus();
}

absl::Status ProgramBuilder::AddLeaf(int32_t from, int32_t to, const std::shared_ptr<const Leaf>& leaf,
                                     uint32_t min_chars, uint32_t max_chars) {
  if (leaf->dfa.empty() || min_chars > max_chars) return absl::OkStatus();
  const auto [it, fresh] = leaf_numbers_.try_emplace(leaf.get(), static_cast<int32_t>(program_->leaves.size()));
  if (fresh) program_->leaves.push_back(leaf);
  return AddEdge(from, {Edge::kLeaf, it->second, to, min_chars, max_chars});
}

absl::StatusOr<int32_t> ProgramBuilder::AddLiteral(int32_t from, std::string_view text) {
  while (!text.empty()) {
    size_t plain = 0;
    int32_t atom = -1;
    while (plain < text.size() && (atom = vocabulary().AtomAt(text.substr(plain))) < 0) ++plain;
    if (plain > 0) {
      const std::string_view piece = text.substr(0, plain);
      const auto make = [&]() -> absl::StatusOr<Dfa> {
        Nfa nfa;
        const int32_t start = nfa.AddState();
        return Determinize(nfa, start, nfa.AddText(start, piece), budget_);
      };
      INGOT_ASSIGN_OR_RETURN(const auto leaf, pool_.Get(absl::StrCat("text ", base::View(piece)), make));
      INGOT_ASSIGN_OR_RETURN(const int32_t to, AddState());
      INGOT_RETURN_IF_ERROR(AddLeaf(from, to, leaf));
      from = to;
    }
    text.remove_prefix(plain);
    if (atom < 0) break;
    INGOT_ASSIGN_OR_RETURN(const int32_t to, AddState());
    INGOT_RETURN_IF_ERROR(AddEdge(from, {Edge::kAtom, atom, to}));
    from = to;
    text.remove_prefix(vocabulary().bytes(atom).size());
  }
  return from;
}

absl::StatusOr<std::shared_ptr<const Program>> ProgramBuilder::Finish() && {
  INGOT_RETURN_IF_ERROR(ComputeNeeds(program_.get(), budget_));
  const int32_t need = program_->states[program_->rule_starts[0]].need;
  if (need > kMaxNesting) {
    return absl::InvalidArgumentError(
        need == kNever ? "the grammar allows no text at all: its constraints contradict one another"
                       : absl::StrCat("the grammar needs ", need, " levels of objects and arrays; at most ",
                                      kMaxNesting, " are sampled"));
  }
  for (State& state : program_->states) {
    std::erase_if(state.edges, [&](const Edge& edge) { return NeedOf(*program_, edge) > kMaxNesting; });
  }
  return std::shared_ptr<const Program>(std::move(program_));
}

}  // namespace ingot::grammar
