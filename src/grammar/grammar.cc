#include "grammar/grammar.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/fault.h"
#include "base/json.h"
#include "grammar/chars.h"
#include "grammar/regex.h"
#include "grammar/schema_compiler.h"

namespace ingot::grammar {

namespace {

using Parts = std::vector<Part>;

void PutSized(std::string& key, std::string_view text) { absl::StrAppend(&key, text.size(), ":", base::View(text)); }

void PutParts(std::string& key, const std::vector<Parts>& alternatives) {
  for (const Parts& parts : alternatives) {
    absl::StrAppend(&key, "|", parts.size(), ";");
    for (const Part& part : parts) {
      absl::StrAppend(&key, part.parameters.has_value() ? "p"
                            : part.keywords             ? "k"
                            : part.is_schema            ? "s"
                            : part.is_regex             ? "r"
                                                        : "l");
      PutSized(key, part.text);
      if (part.parameters.has_value()) {
        const ParameterSyntax& syntax = *part.parameters;
        for (const std::string* text :
             {&syntax.begin, &syntax.text_key_end, &syntax.json_key_end, &syntax.value_end, &syntax.stop}) {
          PutSized(key, *text);
        }
      }
      if (part.repeated.empty()) continue;
      key += '(';
      PutParts(key, part.repeated);
      key += ')';
    }
  }
}

// Returns a key that is equal only for equal specifications.
std::string KeyOf(const Spec& spec) {
  std::string key;
  PutSized(key, spec.begins_after);
  PutParts(key, spec.alternatives);
  return key;
}

struct Sizes {
  size_t literals = 0, schemas = 0, parts = 0;

  void Add(const std::vector<Parts>& alternatives) {
    for (const Parts& alternative : alternatives) {
      for (const Part& part : alternative) {
        (part.is_schema || part.is_regex ? schemas : literals) += part.text.size();
        if (part.parameters.has_value()) {
          literals += part.parameters->begin.size() + part.parameters->value_end.size() +
                      part.parameters->text_key_end.size() + part.parameters->json_key_end.size();
        }
        Add(part.repeated);
      }
      parts += 1 + alternative.size();
    }
  }
};

absl::Status CheckSizes(const Spec& spec) {
  if (spec.alternatives.empty())
    return absl::InvalidArgumentError("grammar.alternatives is empty; it needs at least one");
  if (spec.begins_after.size() > kMaxTriggerBytes) {
    return absl::InvalidArgumentError(absl::StrCat("grammar.begins_after has ", spec.begins_after.size(),
                                                   " bytes; at most ", kMaxTriggerBytes, " are allowed"));
  }
  Sizes sizes;
  sizes.Add(spec.alternatives);
  if (sizes.literals > kMaxLiteralBytes || sizes.schemas > kMaxSchemaBytes || sizes.parts > kMaxLiteralBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the grammar has ", sizes.literals, " bytes of literals, ", sizes.schemas, " of schemas and ", sizes.parts,
        " parts; at most ", kMaxLiteralBytes, ", ", kMaxSchemaBytes, " and ", kMaxLiteralBytes, " are allowed"));
  }
  return absl::OkStatus();
}

// Translates alternatives of parts to states and leaves. `where` is their location for errors.
class PartsCompiler {
 public:
  // `weakest`: true = reduce every lenient schema to its type without trying anything stronger.
  PartsCompiler(ProgramBuilder& builder, bool weakest) : builder_(builder), weakest_(weakest) {}

  bool any_lenient() const { return any_lenient_; }

  // Adds every path from `from` to `to` over one of the alternatives.
  absl::Status Compile(int32_t from, int32_t to, const std::vector<Parts>& alternatives, const std::string& where) {
    for (size_t a = 0; a < alternatives.size(); ++a) {
      int32_t at = from;
      for (size_t p = 0; p < alternatives[a].size(); ++p) {
        const std::string place = absl::StrCat(where, "[", a, "].parts[", p, "]");
        INGOT_ASSIGN_OR_RETURN(at, Add(at, alternatives[a][p], place));
      }
      INGOT_RETURN_IF_ERROR(builder_.AddEdge(at, {Edge::kEpsilon, 0, to}));
    }
    return absl::OkStatus();
  }

 private:
  // Adds one part. Returns the state after it.
  absl::StatusOr<int32_t> Add(int32_t from, const Part& part, const std::string& place) {
    if (!part.repeated.empty()) return AddRepeated(from, part, place);
    if (part.is_regex) return AddRegex(from, part.text, place + ".regex");
    if (!part.is_schema) return builder_.AddLiteral(from, part.text);
    const absl::StatusOr<base::json::value> schema = base::ParseJson(part.text);
    if (!schema.ok()) return base::FaultError({place + ".json_schema", std::string(schema.status().message())});
    INGOT_ASSIGN_OR_RETURN(const int32_t after, builder_.AddState());
    const absl::Status compiled = CompileSchema(from, after, part, *schema);
    if (!compiled.ok()) return base::FaultError({place, std::string(compiled.message())});
    return after;
  }

  absl::Status CompileSchema(int32_t from, int32_t to, const Part& part, const base::json::value& schema) {
    const auto compile = [&](const base::json::value& as) {
      SchemaCompiler compiler(builder_, as, part.keywords ? kPythonNotation : kJsonNotation);
      if (part.parameters.has_value()) return compiler.CompileParameters(from, to, *part.parameters);
      return part.keywords ? compiler.CompileKeywords(from, to) : compiler.Compile(from, to);
    };
    const base::json::value* lenient = base::Find(schema, "x-lenient");
    if (lenient == nullptr || *lenient != true) return compile(schema);
    any_lenient_ = true;
    if (!weakest_) {
      const Budget::Share share(builder_.budget());
      if (compile(schema).ok()) return absl::OkStatus();
    }
    const base::json::value* type = base::Find(schema, "type");
    if (part.parameters.has_value() || part.keywords || base::Find(schema, "properties") != nullptr) {
      return compile(base::json::object{{"type", "object"}});
    }
    const bool plain = type != nullptr && compile(base::json::object{{"type", *type}}).ok();
    return plain ? absl::OkStatus() : compile(true);
  }

  absl::StatusOr<int32_t> AddRegex(int32_t from, const std::string& regex, const std::string& place) {
    const auto whole = RegexDfa(regex);
    if (!whole.ok()) return base::FaultError({place, absl::StrCat("the expression ", whole.status().message())});
    if (whole->empty()) return base::FaultError({place, "no string matches the expression"});
    INGOT_ASSIGN_OR_RETURN(const int32_t after, builder_.AddState());
    if (whole->Accepts("")) INGOT_RETURN_IF_ERROR(builder_.AddEdge(from, {Edge::kEpsilon, 0, after}));
    const auto make = [&]() -> absl::StatusOr<Dfa> {
      INGOT_ASSIGN_OR_RETURN(const Dfa some, LengthDfa(1, UINT32_MAX, builder_.budget(), Spelling::kRaw));
      return Intersect(*whole, some, builder_.budget());
    };
    INGOT_ASSIGN_OR_RETURN(const auto leaf, builder_.pool().Get(absl::StrCat("regex ", regex), make));
    INGOT_RETURN_IF_ERROR(builder_.AddLeaf(from, after, leaf));
    return after;
  }

  // Checks the pattern separately, because its brackets may be unbalanced.
  absl::StatusOr<Dfa> RegexDfa(const std::string& regex) {
    INGOT_RETURN_IF_ERROR(CheckPattern(regex));
    return PatternDfa(absl::StrCat("^(?:", regex, ")$"), builder_.budget(), Spelling::kRaw);
  }

  // The loop has its own state, so edges of `from` do not become part of it.
  absl::StatusOr<int32_t> AddRepeated(int32_t from, const Part& part, const std::string& place) {
    INGOT_ASSIGN_OR_RETURN(const int32_t begin, builder_.AddState());
    INGOT_ASSIGN_OR_RETURN(const int32_t after, builder_.AddState());
    INGOT_RETURN_IF_ERROR(builder_.AddEdge(from, {Edge::kEpsilon, 0, begin}));
    INGOT_RETURN_IF_ERROR(Compile(begin, after, part.repeated, place + ".repeat.alternatives"));
    INGOT_ASSIGN_OR_RETURN(const int32_t next, builder_.AddLiteral(after, part.text));
    INGOT_RETURN_IF_ERROR(builder_.AddEdge(next, {Edge::kEpsilon, 0, begin}));
    return after;
  }

  ProgramBuilder& builder_;
  const bool weakest_;
  bool any_lenient_ = false;
};

}  // namespace

Compiler::Compiler(std::shared_ptr<const Vocabulary> vocabulary, size_t max_kept)
    : vocabulary_(std::move(vocabulary)), max_kept_(max_kept), pool_(std::make_shared<MaskBudget>()) {
  // The schema that allows any value has the leaves that nearly all schemas use.
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
  absl::StatusOr<std::shared_ptr<const Program>> program = Build(spec);
  base::MutexLock lock(mu_);
  if (kept_.size() >= max_kept_ && !kept_.empty()) kept_.erase(kept_.begin());
  if (max_kept_ > 0) kept_.emplace_back(key, program);
  return program;
}

Compiler::Stats Compiler::stats() const {
  base::MutexLock lock(mu_);
  return stats_;
}

absl::StatusOr<std::shared_ptr<const Program>> Compiler::Build(const Spec& spec, bool weakest) {
  Budget budget;
  const absl::Cleanup count = [this, &budget] {
    base::MutexLock lock(mu_);
    ++stats_.compilations;
    stats_.steps += Budget().steps - budget.steps;
  };
  ProgramBuilder builder(vocabulary_, pool_, budget);
  INGOT_ASSIGN_OR_RETURN(const int32_t root, builder.AddRule());
  int32_t start = builder.StartOf(root);
  if (!spec.begins_after.empty()) {
    const auto make = [&]() -> absl::StatusOr<Dfa> { return UntilDfa(spec.begins_after); };
    INGOT_ASSIGN_OR_RETURN(const auto leaf, pool_.Get(absl::StrCat("until ", spec.begins_after), make, -1, true));
    INGOT_ASSIGN_OR_RETURN(const int32_t after, builder.AddState());
    INGOT_RETURN_IF_ERROR(builder.AddLeaf(start, after, leaf));
    start = after;
  }
  INGOT_ASSIGN_OR_RETURN(const int32_t end, builder.AddState());
  builder.SetAccepting(end);
  PartsCompiler parts(builder, weakest);
  INGOT_RETURN_IF_ERROR(parts.Compile(start, end, spec.alternatives, "grammar.alternatives"));
  absl::StatusOr<std::shared_ptr<const Program>> program = std::move(builder).Finish();
  if (program.ok() || weakest || !parts.any_lenient()) return program;
  return Build(spec, /*weakest=*/true);
}

}  // namespace ingot::grammar
