#include "grammar/grammar.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "grammar/chars.h"
#include "grammar/schema_compiler.h"

namespace ingot::grammar {

namespace {

// Everything that makes two specifications differ, as a key.
std::string KeyOf(const Spec& spec) {
  std::string key = absl::StrCat(spec.begins_after.size(), ":", spec.begins_after);
  for (const std::vector<Part>& parts : spec.alternatives) {
    absl::StrAppend(&key, "|", parts.size(), ";");
    for (const Part& part : parts) absl::StrAppend(&key, part.is_schema ? "s" : "l", part.text.size(), ":", part.text);
  }
  return key;
}

// Everything up to the first end of `trigger` (Knuth, Morris and Pratt's automaton).
Dfa TriggerDfa(const std::string& trigger) {
  Dfa dfa;
  const auto size = static_cast<int32_t>(trigger.size());
  std::array<bool, 256> used{};
  for (const char c : trigger) used[static_cast<uint8_t>(c)] = true;
  dfa.class_count = 1;  // class 0: bytes that the trigger does not have
  for (int byte = 0; byte < 256; ++byte) {
    if (used[byte]) dfa.classes[byte] = static_cast<uint8_t>(dfa.class_count++);
  }
  dfa.next.assign(static_cast<size_t>(size + 1) * dfa.class_count, -1);
  dfa.accepting.assign(size + 1, 0);
  dfa.final.assign(size + 1, 0);
  dfa.accepting[size] = dfa.final[size] = 1;
  int32_t fallback = 0;  // the state after the trigger's bytes so far but the first
  for (int32_t s = 0; s < size; ++s) {
    const auto row = dfa.next.begin() + static_cast<ptrdiff_t>(s) * dfa.class_count;
    if (s == 0) {
      std::fill_n(row, dfa.class_count, 0);
    } else {
      std::copy_n(dfa.next.begin() + static_cast<ptrdiff_t>(fallback) * dfa.class_count, dfa.class_count, row);
      fallback = dfa.Next(fallback, static_cast<uint8_t>(trigger[s]));
    }
    row[dfa.classes[static_cast<uint8_t>(trigger[s])]] = s + 1;
  }
  return dfa;
}

// Text, with the atomic tokens in it as the tokenizer would find them: leftmost, longest first.
absl::StatusOr<int32_t> AddLiteral(ProgramBuilder& builder, int32_t from, std::string_view text) {
  while (!text.empty()) {
    size_t plain = 0;
    int32_t atom = -1;
    while (plain < text.size() && (atom = builder.vocabulary().AtomAt(text.substr(plain))) < 0) ++plain;
    if (plain > 0) {
      const std::string_view piece = text.substr(0, plain);
      const auto make = [&]() -> absl::StatusOr<Dfa> {
        Nfa nfa;
        const int32_t start = nfa.AddState();
        return Determinize(nfa, start, nfa.AddText(start, piece), builder.budget());
      };
      INGOT_ASSIGN_OR_RETURN(const auto leaf, builder.pool().Get(absl::StrCat("text ", base::View(piece)), make));
      INGOT_ASSIGN_OR_RETURN(const int32_t to, builder.AddState());
      INGOT_RETURN_IF_ERROR(builder.AddLeaf(from, to, leaf));
      from = to;
    }
    text.remove_prefix(plain);
    if (atom < 0) break;
    INGOT_ASSIGN_OR_RETURN(const int32_t to, builder.AddState());
    INGOT_RETURN_IF_ERROR(builder.AddEdge(from, {Edge::kAtom, atom, to}));
    from = to;
    text.remove_prefix(builder.vocabulary().bytes(atom).size());
  }
  return from;
}

absl::Status CheckSizes(const Spec& spec) {
  if (spec.alternatives.empty()) return absl::InvalidArgumentError("grammar.alternatives is empty; one is needed");
  if (spec.begins_after.size() > kMaxTriggerBytes) {
    return absl::InvalidArgumentError(absl::StrCat("grammar.begins_after has ", spec.begins_after.size(),
                                                   " bytes; at most ", kMaxTriggerBytes, " are allowed"));
  }
  size_t literals = 0, schemas = 0, parts = 0;
  for (const std::vector<Part>& alternative : spec.alternatives) {
    for (const Part& part : alternative) (part.is_schema ? schemas : literals) += part.text.size();
    parts += 1 + alternative.size();
  }
  if (literals > kMaxLiteralBytes || schemas > kMaxSchemaBytes || parts > kMaxLiteralBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the grammar has ", literals, " bytes of literals, ", schemas,
                                                   " of schemas and ", parts, " parts; at most ", kMaxLiteralBytes,
                                                   ", ", kMaxSchemaBytes, " and ", kMaxLiteralBytes, " are allowed"));
  }
  return absl::OkStatus();
}

}  // namespace

Compiler::Compiler(std::shared_ptr<const Vocabulary> vocabulary, size_t max_kept)
    : vocabulary_(std::move(vocabulary)), max_kept_(max_kept), pool_(std::make_shared<MaskBudget>()) {
  // A schema of any value has what nearly all have in common.
  const absl::StatusOr<std::shared_ptr<const Program>> any = Build({{{{true, "true"}}}, ""});
  if (!any.ok()) return;
  common_ = (*any)->leaves;
  Matcher matcher(*any);
  for (const char c : std::string_view("{\"a\\n\": [1.5, \"b\\u00e9\xC3\xA9\\\"\", true], \"c\": {}}")) {
    if (!matcher.Allowed().ok() || !matcher.AcceptText({&c, 1})) return;
  }
}

absl::StatusOr<std::shared_ptr<const Program>> Compiler::Compile(const Spec& spec) {
  INGOT_RETURN_IF_ERROR(CheckSizes(spec));
  const std::string key = KeyOf(spec);
  {
    base::MutexLock lock(mu_);
    const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const auto& entry) { return entry.first == key; });
    if (found != kept_.end()) {
      std::rotate(found, found + 1, kept_.end());
      return kept_.back().second;
    }
  }
  INGOT_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program, Build(spec));
  base::MutexLock lock(mu_);
  if (kept_.size() >= max_kept_ && !kept_.empty()) kept_.erase(kept_.begin());
  if (max_kept_ > 0) kept_.emplace_back(key, program);
  return program;
}

absl::StatusOr<std::shared_ptr<const Program>> Compiler::Build(const Spec& spec) {
  Budget budget;
  ProgramBuilder builder(vocabulary_, pool_, budget);
  INGOT_ASSIGN_OR_RETURN(const int32_t root, builder.AddRule());
  int32_t start = builder.StartOf(root);
  if (!spec.begins_after.empty()) {
    const auto make = [&]() -> absl::StatusOr<Dfa> { return TriggerDfa(spec.begins_after); };
    INGOT_ASSIGN_OR_RETURN(const auto leaf, pool_.Get(absl::StrCat("until ", spec.begins_after), make, -1, true));
    INGOT_ASSIGN_OR_RETURN(const int32_t behind, builder.AddState());
    INGOT_RETURN_IF_ERROR(builder.AddLeaf(start, behind, leaf));
    start = behind;
  }
  INGOT_ASSIGN_OR_RETURN(const int32_t end, builder.AddState());
  builder.SetAccepting(end);
  for (size_t a = 0; a < spec.alternatives.size(); ++a) {
    int32_t at = start;
    for (size_t p = 0; p < spec.alternatives[a].size(); ++p) {
      const Part& part = spec.alternatives[a][p];
      if (!part.is_schema) {
        INGOT_ASSIGN_OR_RETURN(at, AddLiteral(builder, at, part.text));
        continue;
      }
      const std::string where = absl::StrCat("grammar.alternatives[", a, "].parts[", p, "]");
      const absl::StatusOr<base::json::value> schema = base::ParseJson(part.text);
      if (!schema.ok()) return base::Annotate(schema.status(), where + ".json_schema");
      INGOT_ASSIGN_OR_RETURN(const int32_t behind, builder.AddState());
      const absl::Status compiled = SchemaCompiler(builder, *schema).Compile(at, behind);
      if (!compiled.ok()) return base::Annotate(compiled, where);
      at = behind;
    }
    INGOT_RETURN_IF_ERROR(builder.AddEdge(at, {Edge::kEpsilon, 0, end}));
  }
  return std::move(builder).Finish();
}

}  // namespace ingot::grammar
