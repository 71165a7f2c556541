// Converts arguments that a model wrote as plain text to JSON.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"

namespace ingot::text {

// JSON types that a schema allows, as bits; 0 = the schema does not restrict types.
enum TypeBits : unsigned {
  kStringBit = 1,
  kNumberBit = 2,
  kBoolBit = 4,
  kNullBit = 8,
  kObjectBit = 16,
  kArrayBit = 32,
};

// Tool parameter types, from the tools' JSON schemas. Reads `type`, `enum`, `const`, anyOf/oneOf/allOf, and `$ref`
// within the tool's own schema. Accepts OpenAI tools ({"type":"function","function":{"name","parameters"}}), tools
// without the wrapper, and `input_schema`. Ignores anything else, because tools are validated elsewhere.
class ParameterTypes {
 public:
  explicit ParameterTypes(std::span<const base::json::value> tools);
  unsigned Of(std::string_view tool, std::string_view parameter) const;

 private:
  std::map<std::string, std::map<std::string, unsigned, std::less<>>, std::less<>> types_;
};

// Converts a parameter's value to JSON text. The first rule that applies is used:
//
//   1. If only strings are allowed, a string.
//   2. If the text is JSON of an allowed type, that text without surrounding whitespace. Null is also allowed,
//      unless strings are allowed.
//   3. If it is a Python literal of an allowed type (True, None, {'a': 1}), its JSON.
//   4. Otherwise a string.
//
// If `types` is 0, every type is allowed except a quoted JSON string, because templates write strings without quotes.
// The result is always valid JSON in UTF-8.
std::string JsonOfText(std::string_view text, unsigned types);

}  // namespace ingot::text
