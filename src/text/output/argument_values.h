// Converts arguments that a model wrote as plain text to JSON.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"

namespace ingot::text {

// The kinds of JSON that a schema allows, as bits; 0 = the schema does not say.
enum TypeBits : unsigned {
  kStringBit = 1,
  kNumberBit = 2,
  kBoolBit = 4,
  kNullBit = 8,
  kObjectBit = 16,
  kArrayBit = 32,
};

// The types of tools' parameters, from their JSON schemas: `type`, `enum`, `const`, anyOf/oneOf/allOf, and `$ref`
// within the tool's own schema. Reads OpenAI's tools ({"type":"function","function":{"name","parameters"}}), the same
// without the wrapping, and `input_schema`. Ignores anything else, because tools are validated elsewhere.
class ParameterTypes {
 public:
  explicit ParameterTypes(std::span<const base::json::value> tools);
  unsigned Of(std::string_view tool, std::string_view parameter) const;

 private:
  std::map<std::string, std::map<std::string, unsigned, std::less<>>, std::less<>> types_;
};

// A parameter's value as JSON text:
//
//   1. a string, if only strings are allowed;
//   2. else, if the text is JSON of an allowed kind, that text without the white space around it (null counts as
//      allowed unless strings are);
//   3. else, if it is a Python literal of an allowed kind (True, None, {'a': 1}), its JSON;
//   4. else a string.
//
// With `types` 0, every kind is allowed except a JSON string in its quotes, because templates write strings without
// quotes. The result is always valid JSON in UTF-8.
std::string JsonOfText(std::string_view text, unsigned types);

}  // namespace ingot::text
