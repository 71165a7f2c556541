// Arguments that a model wrote as text, as JSON.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"

namespace ingot::text {

// Kinds of JSON a schema admits, as bits; 0: the schema says nothing.
enum TypeBits : unsigned {
  kStringBit = 1,
  kNumberBit = 2,
  kBoolBit = 4,
  kNullBit = 8,
  kObjectBit = 16,
  kArrayBit = 32,
};

// What the tools' JSON schemas say of their parameters: `type`, `enum`, `const`, anyOf/oneOf/allOf and `$ref` within
// the tool's own schema. Knows OpenAI's tools ({"type":"function","function":{"name","parameters"}}), the same without
// the wrapping, and `input_schema`. Anything else is skipped: tools are checked elsewhere.
class ParameterTypes {
 public:
  explicit ParameterTypes(std::span<const base::json::value> tools);
  unsigned Of(std::string_view tool, std::string_view parameter) const;

 private:
  std::map<std::string, std::map<std::string, unsigned, std::less<>>, std::less<>> types_;
};

// A parameter's value as JSON text:
//   - a string if only strings are admitted;
//   - else, if the text is JSON of an admitted kind (null is one wherever strings are not), that text without the white
//     space around it;
//   - else, if it is a Python literal of an admitted kind (True, None, {'a': 1}), its JSON;
//   - else a string.
// `types` 0 admits everything but a JSON string in its quotes: templates write strings without. The result is valid
// JSON in UTF-8 whatever the text.
std::string JsonOfText(std::string_view text, unsigned types);

}  // namespace ingot::text
