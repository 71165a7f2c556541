// Translates JSON Schema to a program's states and leaves. grammar/grammar.h lists the supported keywords and describes
// how sampled text is written.
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

// Compiles one schema document into a program that is being built.
class SchemaCompiler {
 public:
  // REQUIRES: all arguments outlive the compiler.
  SchemaCompiler(ProgramBuilder& builder, const json::value& root, const Notation& notation = kJsonNotation)
      : builder_(builder), root_(root), notation_(notation), flattener_(root, builder.budget()) {}

  // Adds states and edges from `from` to `to` that consume one value that matches the document's schema.
  absl::Status Compile(int32_t from, int32_t to);
  // Same as Compile, but for an object whose properties are written as parameters (schema_parameters.cc). Also returns
  // INVALID_ARGUMENT if a property name cannot be written as a parameter.
  absl::Status CompileParameters(int32_t from, int32_t to, const ParameterSyntax& syntax);
  // Same as Compile, but for Python keyword arguments: KEY=VALUE pairs separated by commas (schema_keywords.cc).
  absl::Status CompileKeywords(int32_t from, int32_t to);

 private:
  struct PendingRule {  // a rule whose body has not been built yet
    int32_t rule;
    bool is_object;
    FlatSchema schema;
    std::string path;
  };
  using LeafPtr = std::shared_ptr<const Leaf>;

  absl::Status Emit(int32_t from, int32_t to, const json::value& schema, const std::string& path);
  absl::Status EmitFlat(int32_t from, int32_t to, const FlatSchema& schema, const std::string& path);
  // Calls `emit` (FlatSchema to Status) with `schema`. If that fails and the document is lenient, first retries without
  // one kind of keyword at a time, and then drops more and more kinds until `emit` succeeds. Each attempt may use half
  // of the remaining budget.
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
  // Adds an object's members and the commas between them, starting at `begin`. An object without members ends at state
  // `none`, and any other object ends at `some`.
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
  // Returns a leaf that accepts names that match `pattern`, except the known names.
  absl::StatusOr<LeafPtr> OtherNames(const std::string& pattern, const std::vector<Property>& known);
  // Adds a leaf with fixed text and optional whitespace before and after it.
  absl::Status AddMark(int32_t from, int32_t to, std::string_view text, bool space_before, bool space_after);

  ProgramBuilder& builder_;
  const json::value& root_;
  const Notation& notation_;
  SchemaFlattener flattener_;
  std::map<std::string, int32_t> rules_;  // rule index by kind and schema text
  std::deque<PendingRule> pending_;
};

// The kinds of keywords that a lenient schema may drop, in this order. Costly and often contradictory kinds come first.
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
// Removes the keywords of this kind. Returns false if the schema has none.
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

// Scalars and enumerations (schema_scalars.cc).
struct StringRules {
  uint32_t min = 0, max = kNoLimit;   // in characters
  std::vector<std::string> patterns;  // strings must match all of them
  bool any() const { return patterns.empty() && min == 0 && max == kNoLimit; }
  std::string Name() const;  // part of leaf names in the LeafPool
};
absl::StatusOr<StringRules> StringRulesOf(const FlatSchema& schema, const std::string& path);
// Returns an automaton for strings that satisfy `rules`, without quotation marks.
absl::StatusOr<Dfa> ContentDfa(const StringRules& rules, Budget& budget, Spelling spelling, const std::string& path);
absl::StatusOr<NumberRange> NumberRangeOf(const FlatSchema& schema, bool integer, const std::string& path);
// Returns the types that a schema allows, in the order of kTypes. A schema without `type` allows the types that its
// other keywords apply to.
inline constexpr std::string_view kTypes[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
absl::StatusOr<std::vector<std::string>> TypesOf(const FlatSchema& schema, const std::string& path);
// Returns the value of `key`, which must be an integer from 0 to 10^9, or `missing` if the schema does not have it.
absl::StatusOr<uint32_t> CountOf(const FlatSchema& schema, const char* key, uint32_t missing, const std::string& path);
// Returns the values in `enum` that the other keywords also allow.
absl::StatusOr<std::vector<json::value>> AllowedValues(const FlatSchema& schema, const std::string& path,
                                                       Budget& budget);
// Adds every accepted spelling of `value`: scalars in canonical spelling, with optional whitespace (AddWhitespace)
// between JSON tokens. Returns the state after the value.
int32_t AddValue(Nfa& nfa, int32_t from, const json::value& value, const Notation& notation);

}  // namespace ingot::grammar
