// SchemaCompiler: translates JSON Schema to states and leaves of a program. grammar/grammar.h lists the supported
// keywords and says how sampled text is spelled.
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

// Compiles one schema document into a program under construction.
class SchemaCompiler {
 public:
  // All arguments outlive the compiler.
  SchemaCompiler(ProgramBuilder& builder, const json::value& root, const Notation& notation = kJsonNotation)
      : builder_(builder), root_(root), notation_(notation), flattener_(root, builder.budget()) {}

  // Adds the states and edges that lead from `from` to `to` by consuming one value that matches the document's schema.
  absl::Status Compile(int32_t from, int32_t to);
  // The same for an object whose properties are written as parameters (schema_parameters.cc). Also returns
  // INVALID_ARGUMENT for a property name that cannot be written as a parameter.
  absl::Status CompileParameters(int32_t from, int32_t to, const ParameterSyntax& syntax);
  // The same for Python keyword arguments: KEY=VALUE pairs separated by commas (schema_keywords.cc).
  absl::Status CompileKeywords(int32_t from, int32_t to);

 private:
  struct PendingRule {  // a rule whose body is not built yet
    int32_t rule;
    bool is_object;
    FlatSchema schema;
    std::string path;
  };
  using LeafPtr = std::shared_ptr<const Leaf>;

  absl::Status Emit(int32_t from, int32_t to, const json::value& schema, const std::string& path);
  absl::Status EmitFlat(int32_t from, int32_t to, const FlatSchema& schema, const std::string& path);
  // Calls `emit` (FlatSchema to Status) with `schema`. If that fails and the document is lenient, first drops one kind
  // of keyword at a time, then drops kinds cumulatively, until `emit` succeeds. Each attempt gets half of the remaining
  // budget.
  template <typename F>
  absl::Status AsFarAsCanBe(const FlatSchema& schema, const F& emit);
  absl::Status EmitString(int32_t from, int32_t to, const FlatSchema& schema, const std::string& path);
  absl::Status EmitNumber(int32_t from, int32_t to, const FlatSchema& schema, bool integer, const std::string& path);
  absl::Status EmitEnum(int32_t from, int32_t to, const FlatSchema& schema, const std::string& path);
  absl::Status EmitRule(int32_t from, int32_t to, bool is_object, const FlatSchema& schema, const std::string& path);
  absl::Status BuildPending();
  absl::Status BuildObject(const PendingRule& rule);
  absl::Status BuildArray(const PendingRule& rule);
  struct Property {
    std::string key;
    const json::value* schema = nullptr;
    bool required = false;
  };
  absl::StatusOr<std::vector<Property>> PropertiesOf(const PendingRule& rule, const json::value* additional) const;
  enum class Keys {
    kQuoted,    // "KEY":
    kKeywords,  // KEY=
  };
  // Adds an object's members and the commas between them, starting at `begin`. An object without members ends at
  // `none`, any other at `some`.
  absl::Status EmitMembers(const PendingRule& object, Keys keys, int32_t begin, int32_t none, int32_t some);
  absl::Status AddKey(int32_t from, int32_t to, const std::string& key, Keys keys, const std::string& path);
  absl::Status AddOtherKeys(int32_t from, int32_t to, const std::vector<Property>& known, Keys keys);
  absl::Status AddKeyword(int32_t from, int32_t to, const std::string& key, const std::string& path);
  absl::Status AddOtherKeywords(int32_t from, int32_t to, const std::vector<Property>& known);
  struct Parameter;
  absl::Status EmitParameters(int32_t from, int32_t to, const FlatSchema& schema, const ParameterSyntax& syntax);
  absl::Status EmitParameter(const Parameter& parameter, int32_t to, const ParameterSyntax& syntax);
  absl::StatusOr<bool> EmitParameterAs(const Parameter& parameter, int32_t to, int32_t after_json,
                                       const FlatSchema& schema, const ParameterSyntax& syntax);
  absl::StatusOr<bool> EmitTexts(const Parameter& parameter, int32_t to, const FlatSchema& schema,
                                 const ParameterSyntax& syntax);
  absl::Status EmitText(int32_t from, int32_t to, const std::string& name, const Dfa& content,
                        const ParameterSyntax& syntax);
  // The names that match `pattern`, except known names.
  absl::StatusOr<LeafPtr> OtherNames(const std::string& pattern, const std::vector<Property>& known);
  // Adds a leaf of fixed text, with optional white space before and after it.
  absl::Status AddMark(int32_t from, int32_t to, std::string_view text, bool space_before, bool space_after);

  ProgramBuilder& builder_;
  const json::value& root_;
  const Notation& notation_;
  SchemaFlattener flattener_;
  std::map<std::string, int32_t> rules_;  // the rule's number, by its kind and schema text
  std::deque<PendingRule> pending_;
};

// The kinds of keywords that a lenient schema may drop, in this order: costly or often contradictory keywords first.
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
// Removes the keywords of that kind; false if the schema had no such keyword.
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
  std::vector<std::string> patterns;  // a string must match all of them
  bool any() const { return patterns.empty() && min == 0 && max == kNoLimit; }
  std::string Name() const;  // part of a leaf's name in the LeafPool
};
absl::StatusOr<StringRules> StringRulesOf(const FlatSchema& schema, const std::string& path);
// The content of a string that satisfies `rules`, without quotation marks.
absl::StatusOr<Dfa> ContentDfa(const StringRules& rules, Budget& budget, Spelling spelling, const std::string& path);
absl::StatusOr<NumberRange> NumberRangeOf(const FlatSchema& schema, bool integer, const std::string& path);
// The types that a schema allows, in the order of kTypes. A schema without a `type` keyword allows the types that its
// other keywords apply to.
inline constexpr std::string_view kTypes[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
absl::StatusOr<std::vector<std::string>> TypesOf(const FlatSchema& schema, const std::string& path);
// The value of `key`, a whole number from 0 to 10^9; `missing` if the schema does not have it.
absl::StatusOr<uint32_t> CountOf(const FlatSchema& schema, const char* key, uint32_t missing, const std::string& path);
// The values of `enum` that the other keywords allow too.
absl::StatusOr<std::vector<json::value>> AllowedValues(const FlatSchema& schema, const std::string& path,
                                                       Budget& budget);
// Adds every accepted spelling of `value`: scalars in their canonical spelling, with optional white space
// (AddWhitespace) between JSON tokens. Returns the state after it.
int32_t AddValue(Nfa& nfa, int32_t from, const json::value& value, const Notation& notation);

}  // namespace ingot::grammar
