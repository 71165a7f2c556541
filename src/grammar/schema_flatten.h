// JSON Schema's combinators worked out: $ref, allOf, anyOf and oneOf become a list of plain alternatives.
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

// A schema without combinators: an object whose keywords are all supported. `const` is an `enum` of one.
using FlatSchema = json::object;

// Reads one schema document. `root` and `budget` outlive it. Faults are INVALID_ARGUMENT, name the keyword and the
// place. Of a lenient one, what would be a fault is passed over, but for what is too complex: SchemaCompiler's matter.
class SchemaFlattener {
 public:
  SchemaFlattener(const json::value& root, Budget& budget);

  // The alternatives that `schema` (any part of the document, or merged from parts) allows; none: nothing is allowed.
  // anyOf and oneOf are the union; allOf, $ref and keywords beside them are merged keyword by keyword. A schema that
  // comes back to itself without an object or array between allows what its other alternatives do.
  absl::StatusOr<std::vector<FlatSchema>> Flatten(const json::value& schema, const std::string& path);

  bool lenient() const { return lenient_; }

 private:
  using Alternatives = std::vector<FlatSchema>;
  absl::StatusOr<const json::value*> Resolve(const json::value& ref, const std::string& path) const;
  // Whether a keyword can be held to; only a lenient schema (grammar.h, x-lenient) is asked.
  bool Usable(std::string_view key, const json::value& value) const;
  absl::Status TakeKeyword(std::string_view key, const json::value& value, const std::string& path, FlatSchema* flat);
  absl::StatusOr<Alternatives> Union(const json::value& list, const std::string& path);
  absl::StatusOr<Alternatives> Cross(const Alternatives& a, const Alternatives& b, const std::string& path);

  const json::value& root_;
  const bool lenient_;
  Budget& budget_;
  std::set<std::string> in_progress_;  // references being followed
  int depth_ = 0;
};

// Exactly. nullopt: it is no number.
std::optional<Decimal> DecimalOf(const json::value& value);

// What both allow, keyword by keyword.
absl::StatusOr<FlatSchema> MergeSchemas(const FlatSchema& a, const FlatSchema& b, const std::string& path);

absl::Status SchemaFault(const std::string& path, const std::string& what);

}  // namespace ingot::grammar
