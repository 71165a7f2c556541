// JSON Schema to states and leaves of a program (see grammar/grammar.h for what is supported and how it is spelled).
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "grammar/notation.h"
#include "grammar/number.h"
#include "grammar/parameters.h"
#include "grammar/program.h"
#include "grammar/schema_flatten.h"

namespace ingot::grammar {

// Compiles one schema document into a program being built.
class SchemaCompiler {
 public:
  // All outlive the compiler.
  SchemaCompiler(ProgramBuilder& builder, const json::value& root, const Notation& notation = kJsonNotation)
      : builder_(builder), root_(root), notation_(notation), flattener_(root, builder.budget()) {}

  // Everything that leads from `from` to `to` over one value of the document's schema.
  absl::Status Compile(int32_t from, int32_t to);
  // The same for an object whose properties are written as parameters (schema_parameters.cc). INVALID_ARGUMENT as well
  // for names that cannot be written so.
  absl::Status CompileParameters(int32_t from, int32_t to, const ParameterSyntax& syntax);
  // The same for keyword arguments, KEY=VALUE with commas between (schema_keywords.cc).
  absl::Status CompileKeywords(int32_t from, int32_t to);

 private:
  struct Pending {  // a rule whose body is not built yet
    int32_t rule;
    bool is_object;
    FlatSchema schema;
    std::string path;
  };
  using LeafPtr = std::shared_ptr<const Leaf>;

  absl::Status Emit(int32_t from, int32_t to, const json::value& schema, const std::string& path);
  absl::Status EmitFlat(int32_t from, int32_t to, const FlatSchema& schema, const std::string& path);
  // `emit` (FlatSchema to Status) of `schema`. A lenient document's is tried without one kind of keyword, then without
  // more and more, until it is done, each time within half of the budget that is left.
  template <typename F>
  absl::Status AsFarAsCanBe(const FlatSchema& schema, const F& emit);
  absl::Status EmitString(int32_t from, int32_t to, const FlatSchema& schema, const std::string& path);
  absl::Status EmitNumber(int32_t from, int32_t to, const FlatSchema& schema, bool integer, const std::string& path);
  absl::Status EmitEnum(int32_t from, int32_t to, const FlatSchema& schema, const std::string& path);
  absl::Status EmitRule(int32_t from, int32_t to, bool is_object, const FlatSchema& schema, const std::string& path);
  absl::Status BuildPending();
  absl::Status BuildObject(const Pending& rule);
  absl::Status BuildArray(const Pending& rule);
  struct Property {
    std::string key;
    const json::value* schema = nullptr;
    bool required = false;
  };
  absl::StatusOr<std::vector<Property>> PropertiesOf(const Pending& rule, const json::value* additional) const;
  enum class Keys {
    kQuoted,    // "KEY":
    kKeywords,  // KEY=
  };
  // Everything from `begin` over an object's members and the commas between: to `none` without any, else to `some`.
  absl::Status EmitMembers(const Pending& object, Keys keys, int32_t begin, int32_t none, int32_t some);
  absl::Status AddKey(int32_t from, int32_t to, const std::string& key, Keys keys, const std::string& path);
  absl::Status AddOtherKeys(int32_t from, int32_t to, const std::vector<Property>& known, Keys keys);
  absl::Status AddKeyword(int32_t from, int32_t to, const std::string& key, const std::string& path);
  absl::Status AddOtherKeywords(int32_t from, int32_t to, const std::vector<Property>& known);
  struct Parameter;
  absl::Status EmitParameters(int32_t from, int32_t to, const FlatSchema& schema, const ParameterSyntax& syntax);
  absl::Status EmitParameter(const Parameter& parameter, int32_t to, const ParameterSyntax& syntax);
  absl::StatusOr<bool> EmitParameterAs(const Parameter& parameter, int32_t to, int32_t behind_json,
                                       const FlatSchema& schema, const ParameterSyntax& syntax);
  absl::StatusOr<bool> EmitTexts(const Parameter& parameter, int32_t to, const FlatSchema& schema,
                                 const ParameterSyntax& syntax);
  absl::Status EmitText(int32_t from, int32_t to, const std::string& name, const Dfa& content,
                        const ParameterSyntax& syntax);
  // Names that `pattern` allows, but for the known ones.
  absl::StatusOr<LeafPtr> OtherNames(const std::string& pattern, const std::vector<Property>& known);
  // A leaf of fixed text, with optional white space before and after.
  absl::Status AddMark(int32_t from, int32_t to, std::string_view text, bool space_before, bool space_behind);

  ProgramBuilder& builder_;
  const json::value& root_;
  const Notation& notation_;
  SchemaFlattener flattener_;
  std::map<std::string, int32_t> rules_;  // by kind and schema text
  std::deque<Pending> pending_;
};

// Keywords that a lenient schema may be held to without, by kind: what is costly or often contradictory first.
inline constexpr std::array<std::array<const char*, 6>, 9> kKinds = {{
    {"multipleOf"},
    {"pattern"},
    {"format"},
    {"minLength", "maxLength"},
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
    {"minItems", "maxItems"},
    {"properties", "required", "additionalProperties", "items", "prefixItems"},
    {"type"},
    {"enum"},
}};
// Whether there was any.
bool EraseKind(size_t kind, FlatSchema* schema);

template <typename F>
absl::Status SchemaCompiler::AsFarAsCanBe(const FlatSchema& schema, const F& emit) {
  if (!flattener_.lenient()) return emit(schema);
  const auto attempt = [&](const FlatSchema& form) {
    const Budget::Share share(builder_.budget());
    return emit(form);
  };
  absl::Status status = attempt(schema);
  for (size_t kind = 0; kind < kKinds.size() && !status.ok(); ++kind) {
    FlatSchema weaker = schema;
    if (EraseKind(kind, &weaker)) status = attempt(weaker);
  }
  FlatSchema weaker = schema;
  for (size_t kind = 0; kind < kKinds.size() && !status.ok(); ++kind) {
    if (EraseKind(kind, &weaker)) status = attempt(weaker);
  }
  return status;
}

// Scalars and enumerations, in schema_scalars.cc.
struct StringRules {
  uint32_t min = 0, max = kNoLimit;   // characters
  std::vector<std::string> patterns;  // all of them hold
  bool any() const { return patterns.empty() && min == 0 && max == kNoLimit; }
  std::string Name() const;  // to tell leaves apart
};
absl::StatusOr<StringRules> StringRulesOf(const FlatSchema& schema, const std::string& path);
// What they allow, without quotation marks.
absl::StatusOr<Dfa> ContentDfa(const StringRules& rules, Budget& budget, Spelling spelling, const std::string& path);
absl::StatusOr<NumberRange> NumberRangeOf(const FlatSchema& schema, bool integer, const std::string& path);
// The types a schema allows, in the order of kTypes; those that its keywords speak of where it names none.
inline constexpr std::string_view kTypes[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
absl::StatusOr<std::vector<std::string>> TypesOf(const FlatSchema& schema, const std::string& path);
// A whole number of at most 10^9 that is not negative; `missing` where there is none.
absl::StatusOr<uint32_t> CountOf(const FlatSchema& schema, const char* key, uint32_t missing, const std::string& path);
// The values of `enum` that the other keywords allow as well.
absl::StatusOr<std::vector<json::value>> AllowedValues(const FlatSchema& schema, const std::string& path,
                                                       Budget& budget);
// Every spelling of `value`: canonical scalars, white space where JSON takes it (as AddWhitespace).
int32_t AddValue(Nfa& nfa, int32_t from, const json::value& value, const Notation& notation);

}  // namespace ingot::grammar
