// Resolves JSON Schema combinators: $ref, allOf, anyOf, and oneOf become a list of plain alternatives.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "grammar/dfa.h"
#include "grammar/number.h"

namespace ingot::grammar {

namespace json = base::json;

// A schema without combinators: an object with only supported keywords. `const` is converted to an `enum` with one
// value.
using FlatSchema = json::object;

// Reads one schema document. Returns INVALID_ARGUMENT, with the keyword and its location, if the schema is invalid. For
// lenient documents, ignores all problems except excessive complexity, which SchemaCompiler handles. REQUIRES: `root`
// and `budget` outlive this object.
class SchemaFlattener {
 public:
  SchemaFlattener(const json::value& root, Budget& budget);

  // Returns the alternatives that `schema` allows; empty = nothing is allowed. `schema` is part of the document or was
  // merged from parts of it. For anyOf and oneOf, this is the union. allOf, $ref, and neighboring keywords are merged
  // keyword by keyword. If a schema refers to itself without an object or array in between, only its other alternatives
  // are returned.
  absl::StatusOr<std::vector<FlatSchema>> Flatten(const json::value& schema, const std::string& path);

  bool lenient() const { return lenient_; }

 private:
  using Alternatives = std::vector<FlatSchema>;
  absl::StatusOr<const json::value*> Resolve(const json::value& ref, const std::string& path) const;
  // Returns whether a keyword and its value are supported. Used only for lenient schemas (grammar.h).
  bool Usable(std::string_view key, const json::value& value) const;
  absl::Status TakeKeyword(std::string_view key, const json::value& value, const std::string& path, FlatSchema* flat);
  absl::StatusOr<Alternatives> Union(const json::value& list, const std::string& path);
  absl::StatusOr<Alternatives> Cross(const Alternatives& a, const Alternatives& b, const std::string& path);

  const json::value& root_;
  const bool lenient_;
  Budget& budget_;
  std::set<std::string> in_progress_;  // references being resolved
  int depth_ = 0;
};

// Returns the exact decimal of `value`, or nullopt if it is not a number.
std::optional<Decimal> DecimalOf(const json::value& value);

// Returns a schema for the values that both schemas allow, merged keyword by keyword.
absl::StatusOr<FlatSchema> MergeSchemas(const FlatSchema& a, const FlatSchema& b, const std::string& path);

absl::Status SchemaFault(const std::string& path, const std::string& what);

}  // namespace ingot::grammar
