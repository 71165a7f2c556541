#include "grammar/program.h"

#include <algorithm>
#include <utility>

namespace ingot::grammar {

namespace {

constexpr int32_t kNever = INT32_MAX;

// Returns the number of rule levels that an edge and everything after it need.
int32_t NeedOf(const Program& program, const Edge& edge) {
  int32_t call = 0;
  if (edge.kind == Edge::kRule) {
    const int32_t inside = program.states[program.rule_starts[edge.arg]].need;
    call = inside == kNever ? kNever : inside + 1;
  }
  return std::max(call, program.states[edge.target].need);
}

// Computes the least fixed point, from "never" downward. Each change wakes the states that depend on it.
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
                                          "its rules depend on each other too much"));
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

absl::Status ProgramBuilder::CopyEdges(int32_t like, int32_t like_to, int32_t from, int32_t to) {
  for (size_t i = 0; i < EdgesOf(like); ++i) {
    Edge edge = program_->states[like].edges[i];
    if (edge.target != like_to) continue;
    edge.target = to;
    INGOT_RETURN_IF_ERROR(AddEdge(from, edge));
  }
  return absl::OkStatus();
}

absl::Status ProgramBuilder::AddLeaf(int32_t from, int32_t to, const std::shared_ptr<const Leaf>& leaf,
                                     uint32_t min_chars, uint32_t max_chars) {
  if (leaf->dfa.empty() || min_chars > max_chars) return absl::OkStatus();
  if (!leaf->counts.finish.empty() && leaf->counts.finish[0] > max_chars) return absl::OkStatus();
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

// Returns null if the union has too many states.
std::shared_ptr<const Leaf> ProgramBuilder::UnionOf(const std::vector<int32_t>& leaves) {
  const Budget::Share share(budget_);
  int64_t states = 0;
  for (const int32_t number : leaves) states += program_->leaves[number]->dfa.size();
  if (!Budget::Spend(budget_.steps, 32 * states, "").ok()) return nullptr;
  Nfa nfa;
  const int32_t start = nfa.AddState(), accept = nfa.AddState();
  for (const int32_t number : leaves) nfa.AddEpsilon(AddDfa(nfa, start, program_->leaves[number]->dfa), accept);
  absl::StatusOr<Dfa> dfa = Determinize(nfa, start, accept, budget_);
  return dfa.ok() ? std::make_shared<const Leaf>(*std::move(dfa), pool_.budget()) : nullptr;
}

absl::Status ProgramBuilder::UniteLeaves() {
  constexpr size_t kMany = 8;  // fewer stay separate, because other grammars share their masks
  std::map<std::vector<int32_t>, std::shared_ptr<const Leaf>> unions;
  for (size_t s = 0; s < program_->states.size(); ++s) {
    if (program_->states[s].edges.size() < kMany) continue;
    std::map<int32_t, std::vector<int32_t>> by_target;
    for (const Edge& edge : program_->states[s].edges) {
      if (edge.kind != Edge::kLeaf || program_->leaves[edge.arg]->free_text) continue;
      if (edge.min_chars == 0 && edge.max_chars == kNoLimit) by_target[edge.target].push_back(edge.arg);
    }
    for (auto& entry : by_target) {
      const int32_t target = entry.first;
      std::vector<int32_t>& leaves = entry.second;
      if (leaves.size() < kMany) continue;
      INGOT_RETURN_IF_ERROR(Budget::Spend(budget_.steps, static_cast<int64_t>(leaves.size()), "it has too many parts"));
      std::sort(leaves.begin(), leaves.end());
      const auto [it, fresh] = unions.try_emplace(leaves);
      if (fresh) it->second = UnionOf(leaves);
      if (it->second == nullptr) continue;
      std::erase_if(program_->states[s].edges, [&](const Edge& edge) {
        return edge.kind == Edge::kLeaf && edge.target == target &&
               std::binary_search(leaves.begin(), leaves.end(), edge.arg) && edge.min_chars == 0 &&
               edge.max_chars == kNoLimit;
      });
      INGOT_RETURN_IF_ERROR(AddLeaf(static_cast<int32_t>(s), target, it->second));
    }
  }
  return absl::OkStatus();
}

// Checks the leaves that a single path of edges reaches from each state. Several paths together may still reach more
// places, which the Matcher limits.
absl::Status ProgramBuilder::CheckPlaces() const {
  const std::vector<State>& states = program_->states;
  size_t places = 0;
  for (const State& state : states) {
    places +=
        std::count_if(state.edges.begin(), state.edges.end(), [](const Edge& e) { return e.kind == Edge::kLeaf; });
  }
  if (places <= kMaxPlaces) return absl::OkStatus();
  std::vector<int32_t> seen(states.size(), -1), stack;
  for (int32_t s = 0; s < static_cast<int32_t>(states.size()); ++s) {
    size_t here = 0;
    const auto enter = [&](int32_t state) {
      if (std::exchange(seen[state], s) != s) stack.push_back(state);
    };
    for (enter(s); !stack.empty();) {
      const State& state = states[stack.back()];
      stack.pop_back();
      INGOT_RETURN_IF_ERROR(Budget::Spend(budget_.steps, 1, "too many of its parts are optional"));
      for (const Edge& edge : state.edges) {
        here += edge.kind == Edge::kLeaf;
        if (edge.kind == Edge::kEpsilon) enter(edge.target);
        if (edge.kind == Edge::kRule) enter(program_->rule_starts[edge.arg]);
      }
    }
    if (here <= kMaxPlaces) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the grammar is too complex: ", here,
        " alternatives or optional properties can start at the same position; at most ", kMaxPlaces, " are allowed"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Program>> ProgramBuilder::Finish() && {
  INGOT_RETURN_IF_ERROR(UniteLeaves());
  INGOT_RETURN_IF_ERROR(ComputeNeeds(program_.get(), budget_));
  const int32_t need = program_->states[program_->rule_starts[0]].need;
  if (need > kMaxNesting) {
    return absl::InvalidArgumentError(
        need == kNever ? "the grammar matches no string: its constraints contradict each other"
                       : absl::StrCat("the grammar needs ", need, " levels of objects and arrays; at most ",
                                      kMaxNesting, " are supported"));
  }
  for (State& state : program_->states) {
    std::erase_if(state.edges, [&](const Edge& edge) { return NeedOf(*program_, edge) > kMaxNesting; });
  }
  INGOT_RETURN_IF_ERROR(CheckPlaces());
  return std::shared_ptr<const Program>(std::move(program_));
}

}  // namespace ingot::grammar
