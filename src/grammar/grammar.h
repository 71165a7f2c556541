// Constrained sampling: what a text must be, compiled so that at every token the ids that can still lead there are
// known.
//
// Exact at the level of bytes: a token is allowed if and only if some whole text of the grammar begins with what was
// sampled so far and that token, also where tokens split characters, numbers or keys. (With a vocabulary that lacks
// single bytes an allowed token may still lead where no token goes on; Matcher::Allowed is then empty.)
//
// JSON Schema, as far as supported: type (also a list), enum, const, properties, required, additionalProperties, items,
// prefixItems, minItems, maxItems, minLength, maxLength, pattern (grammar/regex.h), format (grammar/schema_formats.h),
// minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, anyOf, oneOf (as anyOf), allOf (merged), $ref
// within the schema ("#/..."), recursive or not, true and false. Annotations are passed over: title, description,
// default, examples, any other format, deprecated, readOnly, writeOnly, contentMediaType, contentEncoding, $schema,
// $id, $anchor, $comment, $defs, definitions, discriminator and x-*. Any other keyword is INVALID_ARGUMENT naming it
// and its place, as are values that a keyword cannot have and schemas that nothing satisfies. A schema with
// "x-lenient": true at its root is held to as far as can be and never refused: such keywords and values are passed over
// in it, so that texts may be more than it allows. So is, kind by kind, what is too complex or contradicts the rest of
// its place (multipleOf, a pattern, lengths, bounds, more than 4096 items, ..., in the end all but the schema's type).
//
// Which of the valid texts can be sampled:
// - White space: after { [ , : and before } ] of what is not empty: nothing, one space, or a line feed and up to 32
//   spaces. None elsewhere.
// - Properties in the order of the schema, then those that `required` alone names, then additional ones. An object with
//   `properties` has no additional ones unless additionalProperties says so; likewise `prefixItems` and items. Keys in
//   canonical spelling (grammar/chars.h); additional ones may repeat.
// - Strings: every spelling of every character, but no lone surrogates; with a pattern or format, in canonical
//   spelling. Numbers:
//   grammar/number.h. Values of enum and const: canonical, numbers as base::PrintJson prints them, keys in their order.
// - Parameters (grammar/parameters.h) in the order of properties, each required one and any of the others. One whose
//   value may be any text is held to nothing else, though its schema may also name numbers or null. Those that the
//   schema does not name, where it allows them, have names of letters, digits, _, - and dots.
// - Keyword arguments: KEY=VALUE in the order of properties, a comma and white space between; values, and what is in
//   them, are literals of Python: None, True, False, numbers as in JSON, strings in either quotation mark
//   (grammar/chars.h), lists and dicts. Names of letters, digits and _, also such as Python reserves;
//   those that the schema does not name are of ASCII and may repeat, which Python itself would not take.
// - A schema without type whose keywords speak of certain types means those; an empty one means any value.
// - At most 64 levels of objects and arrays.
//
// What is too complex (INVALID_ARGUMENT that says so), apart from sheer size (grammar/dfa.h): arrays with maxItems or
// minItems beyond some 30,000; a multipleOf beyond some thousands, zeros at its end apart; minLength beside a
// pattern, and maxLength beside one where strings are parameters, beyond some hundreds to thousands of characters (as
// JSON, maxLength is counted and has no such bound); more than 4096 optional properties.
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

// One of `alternatives`, each its parts one after the other.
struct Part {
  bool is_schema = false;
  std::string text;  // the literal, or the JSON Schema
  // With is_schema, of an object: its properties as parameters, or as keyword arguments of Python.
  std::optional<ParameterSyntax> parameters = {};
  bool keywords = false;
  // Without is_schema, and if there are any: one of these, and any number of further ones, `text` between each two.
  std::vector<std::vector<Part>> repeated = {};
};
struct Spec {
  std::vector<std::vector<Part>> alternatives;
  std::string begins_after;  // any text up to and including this comes first; empty: nothing does
};

inline constexpr size_t kMaxSchemaBytes = 256 << 10;
inline constexpr size_t kMaxLiteralBytes = 16 << 10;  // of all literals together
inline constexpr size_t kMaxTriggerBytes = 256;

// Compiles grammars for one vocabulary and keeps the newest. Thread safe. A compilation takes at most about a second
// and 150 MB, whatever the grammar (grammar/dfa.h, Budget), and twice that with lenient schemas; usual ones take a
// millisecond.
class Compiler {
 public:
  // Takes a few hundredths of a second for 150,000 tokens: the masks of common leaves are made here.
  explicit Compiler(std::shared_ptr<const Vocabulary> vocabulary, size_t max_kept = 64);

  // INVALID_ARGUMENT: the grammar is malformed, asks for what is not supported, is too large, or allows no text. A
  // part's own fault is a base::Fault that names it: "grammar.alternatives[0].parts[1]".
  absl::StatusOr<std::shared_ptr<const Program>> Compile(const Spec& spec);

  const std::shared_ptr<const Vocabulary>& vocabulary() const { return vocabulary_; }

 private:
  // `weakest`: of lenient schemas only the type.
  absl::StatusOr<std::shared_ptr<const Program>> Build(const Spec& spec, bool weakest = false);

  const std::shared_ptr<const Vocabulary> vocabulary_;
  const size_t max_kept_;
  LeafPool pool_;
  std::vector<std::shared_ptr<const Leaf>> common_;  // kept for good, with their masks
  base::Mutex mu_;
  // Newest last; refusals too, so that what is too complex is not tried again with every request.
  std::vector<std::pair<std::string, absl::StatusOr<std::shared_ptr<const Program>>>> kept_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::grammar
