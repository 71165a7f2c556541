// Compiles grammars for constrained sampling, so that the allowed next token ids are known at every position.
//
// The result is exact at the byte level. A token is allowed if and only if some complete string in the grammar begins
// with the text so far followed by that token, even if tokens split characters, numbers, or keys. If the vocabulary
// lacks some single-byte tokens, an allowed token may lead to a position where no token fits. Matcher::Allowed then
// returns an empty set.
//
// Supported JSON Schema:
// - Types and values: type (also a list), enum, const, true, and false as schemas.
// - Objects and arrays: properties, required, additionalProperties, items, prefixItems, minItems, maxItems.
// - Strings: minLength, maxLength, pattern (grammar/regex.h), format (grammar/schema_formats.h).
// - Numbers: minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf.
// - Combinators: anyOf, oneOf (treated as anyOf), allOf (merged), $ref within the schema ("#/..."), including recursive
//   ones.
//
// Ignored annotations: title, description, default, examples, any other format, deprecated, readOnly, writeOnly,
// contentMediaType, contentEncoding, $schema, $id, $anchor, $comment, $defs, definitions, discriminator, and x-*. Any
// other keyword, an invalid value, or a schema that nothing satisfies is an INVALID_ARGUMENT error with its location.
//
// A lenient schema has "x-lenient": true at its root. It is never rejected. Its unsupported keywords and values are
// ignored, so sampled text may violate the schema. Keywords that are too complex or contradict others at the same
// location are dropped one kind at a time (kKinds in schema_compiler.h). As a last resort, everything except the
// schema's type is dropped.
//
// Of all valid text, only the following can be sampled:
// - Whitespace: nothing, one space, or a line feed and up to 32 spaces, only after { [ , : and before the } ] of a
//   nonempty object or array.
// - Properties: in the schema's order, then names that are only in `required`, then additional properties. An object
//   with `properties` has additional properties only if additionalProperties is set. The same applies to `prefixItems`
//   and `items`. Keys are in canonical spelling (grammar/chars.h). Additional keys may repeat.
// - Strings: every spelling of every character, except lone surrogates. With a pattern or format, only canonical
//   spelling.
// - Numbers: see grammar/number.h.
// - enum and const values: canonical spelling, with numbers as printed by base::PrintJson and keys in their order.
// - Parameters (grammar/parameters.h): all required parameters and any optional ones, in the order of properties. If
//   a parameter can be any text, its value is unrestricted, even if its schema also allows numbers or null. Additional
//   names, if the schema allows them, consist of letters, digits, _, -, and dots.
// - Keyword arguments: KEY=VALUE in the order of properties, separated by a comma and whitespace. All values are
//   Python literals: None, True, False, numbers as in JSON, strings in either quotation mark (grammar/chars.h), lists
//   and dicts. Names consist of letters, digits, and _, and may be Python's reserved words. Additional names are ASCII
//   and may repeat, although Python itself would reject that.
// - A schema without type allows the types that its keywords apply to. An empty schema allows any value.
// - Objects and arrays nest at most 64 levels.
//
// Rejected with INVALID_ARGUMENT "... is too complex", like all grammars that exceed the limits in grammar/dfa.h:
// - minItems or maxItems above about 30,000
// - multipleOf above a few thousand, not counting trailing zeros
// - minLength with a pattern, or maxLength with a pattern in a parameter, above hundreds to thousands of characters
//   (in JSON, maxLength is counted outside the automaton and has no such limit)
// - more than 4096 optional properties
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "grammar/matcher.h"
#include "grammar/parameters.h"
#include "grammar/program.h"
#include "grammar/vocabulary.h"

namespace ingot::grammar {

// One part of an alternative: a literal, a schema, a regular expression, or a repetition.
struct Part {
  bool is_schema = false;
  std::string text;  // the literal, JSON Schema, or regular expression, or a repetition's separator
  // For object schemas only: how the properties are written. parameters = one by one between delimiters, keywords = as
  // Python keyword arguments, neither = as JSON.
  std::optional<ParameterSyntax> parameters = {};
  bool keywords = false;
  // True = the part is UTF-8 text, all of which matches the expression in `text` (grammar/regex.h). Not allowed with
  // is_schema.
  bool is_regex = false;
  // Not empty = one or more of these alternatives, separated by `text`. Not allowed with is_schema.
  std::vector<std::vector<Part>> repeated = {};
};
// The sampled text must match one of the alternatives. An alternative is a sequence of parts.
struct Spec {
  std::vector<std::vector<Part>> alternatives;
  std::string begins_after;  // not empty = free text comes first, up to and including this string
};

inline constexpr size_t kMaxSchemaBytes = 256 << 10;
inline constexpr size_t kMaxLiteralBytes = 16 << 10;  // total over all literals
inline constexpr size_t kMaxTriggerBytes = 256;

// Compiles grammars for one vocabulary and caches the `max_kept` most recent results. Compiling any grammar takes at
// most about one second and 150 MB (grammar/dfa.h, Budget), or twice that with lenient schemas. Typical grammars take a
// millisecond. Thread safe.
class Compiler {
 public:
  // Precomputes the masks of common leaves, which takes about 10 ms for 150,000 tokens.
  explicit Compiler(std::shared_ptr<const Vocabulary> vocabulary, size_t max_kept = 64);

  // Returns INVALID_ARGUMENT if the grammar is malformed, unsupported, too large, or allows no text. For problems in a
  // part, the error is a base::Fault with the location, such as "grammar.alternatives[0].parts[1]".
  absl::StatusOr<std::shared_ptr<const Program>> Compile(const Spec& spec);

  const std::shared_ptr<const Vocabulary>& vocabulary() const { return vocabulary_; }

  // Total work of all compilations so far, including the common leaves.
  struct Stats {
    int64_t compilations = 0;  // a lenient grammar may take two
    int64_t steps = 0;         // in units of Budget::steps
  };
  Stats stats() const;

 private:
  // `weakest`: true = reduces every lenient schema to its type.
  absl::StatusOr<std::shared_ptr<const Program>> Build(const Spec& spec, bool weakest = false);

  const std::shared_ptr<const Vocabulary> vocabulary_;
  const size_t max_kept_;
  LeafPool pool_;
  std::vector<std::shared_ptr<const Leaf>> common_;  // keeps the common leaves and their masks in memory
  mutable base::Mutex mu_;
  Stats stats_ ABSL_GUARDED_BY(mu_);
  // Newest last. Errors are cached too, so that an overly complex grammar is not recompiled for every request.
  std::vector<std::pair<std::string, absl::StatusOr<std::shared_ptr<const Program>>>> kept_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::grammar
