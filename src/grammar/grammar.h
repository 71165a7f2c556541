// Constrained sampling: compiles the grammar of a text, so that the allowed next token ids are known at every position.
//
// Exact at the level of bytes: a token is allowed if and only if some complete text of the grammar begins with the text
// so far and that token, even if tokens split characters, numbers or keys. If the vocabulary lacks single bytes, an
// allowed token may lead to a position that no token continues; Matcher::Allowed is then empty.
//
// Supported JSON Schema:
// - Types and values: type (also a list), enum, const, true and false as schemas.
// - Objects and arrays: properties, required, additionalProperties, items, prefixItems, minItems, maxItems.
// - Strings: minLength, maxLength, pattern (grammar/regex.h), format (grammar/schema_formats.h).
// - Numbers: minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf.
// - Combinators: anyOf, oneOf (as anyOf), allOf (merged), $ref within the schema ("#/..."), also recursive.
// Annotations are ignored: title, description, default, examples, any other format, deprecated, readOnly, writeOnly,
// contentMediaType, contentEncoding, $schema, $id, $anchor, $comment, $defs, definitions, discriminator and x-*.
// INVALID_ARGUMENT names the place of any other keyword, of an invalid value of a keyword, and of a schema that nothing
// satisfies.
//
// A lenient schema has "x-lenient": true at its root. It is never rejected. The compiler ignores its unsupported
// keywords and values, so a sampled text may be outside the schema. Keywords that are too complex or contradict others
// at the same place are dropped kind by kind: multipleOf, pattern, lengths, bounds, more than 4096 items, ..., and
// finally everything except the schema's type.
//
// The valid texts that can be sampled:
// - White space: nothing, one space, or a line feed and up to 32 spaces, only after { [ , : and before the } ] of a
//   nonempty object or array.
// - Properties: in the schema's order, then names that only `required` has, then additional properties. An object with
//   `properties` has additional properties only if additionalProperties says so; likewise `prefixItems` and items. Keys
//   are in canonical spelling (grammar/chars.h); additional keys may repeat.
// - Strings: every spelling of every character, except lone surrogates. With a pattern or format: canonical spelling
//   only.
// - Numbers: see grammar/number.h.
// - Values of enum and const: canonical, numbers as base::PrintJson prints them, keys in their order.
// - Parameters (grammar/parameters.h): in the order of properties, all required and any optional parameters. A
// parameter
//   whose value may be any text is not restricted, even if its schema also allows numbers or null. Additional names, if
//   the schema allows them, consist of letters, digits, _, - and dots.
// - Keyword arguments: KEY=VALUE in the order of properties, separated by a comma and white space. Values are Python
//   literals throughout: None, True, False, numbers as in JSON, strings in either quotation mark (grammar/chars.h),
//   lists and dicts. Names consist of letters, digits and _; Python's reserved words are allowed. Additional names are
//   ASCII and may repeat, although Python itself would reject them.
// - A schema without type allows the types that its keywords apply to; an empty schema allows any value.
// - Objects and arrays nest at most 64 levels.
//
// INVALID_ARGUMENT "... is too complex" rejects a grammar beyond the sizes in grammar/dfa.h, and:
// - minItems or maxItems beyond about 30,000;
// - a multipleOf beyond some thousands, zeros at its end not counted;
// - minLength with a pattern, or maxLength with a pattern in a parameter, beyond some hundreds to thousands of
// characters
//   (in JSON, maxLength is counted outside the automaton and has no such limit);
// - more than 4096 optional properties.
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

// One part of an alternative: a literal, a schema, a regular expression or a repetition.
struct Part {
  bool is_schema = false;
  std::string text;  // the literal, JSON Schema or regular expression; in a repetition, the separator
  // Only with is_schema, for an object: how its properties are written. parameters: one by one between delimiters.
  // keywords: as Python's keyword arguments. Neither: as JSON.
  std::optional<ParameterSyntax> parameters = {};
  bool keywords = false;
  // Only without is_schema. The part is a UTF-8 text that this whole expression matches (grammar/regex.h).
  bool is_regex = false;
  // Only without is_schema. Not empty: one or more of these alternatives, with `text` between each two.
  std::vector<std::vector<Part>> repeated = {};
};
// A text is one of the alternatives; an alternative is its parts in order.
struct Spec {
  std::vector<std::vector<Part>> alternatives;
  std::string begins_after;  // not empty: free text up to and including its first occurrence comes before
};

inline constexpr size_t kMaxSchemaBytes = 256 << 10;
inline constexpr size_t kMaxLiteralBytes = 16 << 10;  // of all literals together
inline constexpr size_t kMaxTriggerBytes = 256;

// Compiles grammars for one vocabulary and caches the newest `max_kept` results. Thread safe. Compiling any grammar
// takes at most about a second and 150 MB (grammar/dfa.h, Budget), and twice that with lenient schemas. Usual grammars
// take a millisecond.
class Compiler {
 public:
  // Takes some 10 ms for 150,000 tokens: it computes the masks of common leaves.
  explicit Compiler(std::shared_ptr<const Vocabulary> vocabulary, size_t max_kept = 64);

  // INVALID_ARGUMENT: the grammar is malformed, unsupported, too large, or allows no text. A fault within a part is a
  // base::Fault with its place: "grammar.alternatives[0].parts[1]".
  absl::StatusOr<std::shared_ptr<const Program>> Compile(const Spec& spec);

  const std::shared_ptr<const Vocabulary>& vocabulary() const { return vocabulary_; }

  // The work of all compilations so far, including the common leaves.
  struct Stats {
    int64_t compilations = 0;  // a lenient specification may take two
    int64_t steps = 0;         // of Budget::steps
  };
  Stats stats() const;

 private:
  // `weakest`: reduce every lenient schema to its type.
  absl::StatusOr<std::shared_ptr<const Program>> Build(const Spec& spec, bool weakest = false);

  const std::shared_ptr<const Vocabulary> vocabulary_;
  const size_t max_kept_;
  LeafPool pool_;
  std::vector<std::shared_ptr<const Leaf>> common_;  // keeps the common leaves and their masks alive
  mutable base::Mutex mu_;
  Stats stats_ ABSL_GUARDED_BY(mu_);
  // Newest last. Errors are cached too, so that an overly complex grammar is not compiled for every request.
  std::vector<std::pair<std::string, absl::StatusOr<std::shared_ptr<const Program>>>> kept_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::grammar
