// JSON that keeps its numbers as they are written. A value of base/json.h holds integers of 64 bits and doubles; what
// only passes through (a task on its way to an agent) or is compared digit by digit is read from its text instead.
//
//   {"n": 265252859812191058636308480000000, "l": [1.50, "x"]}
//         `-----------------------------'          `--'          parts of the text: nothing is converted
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ingot::base {

// One value of a JSON text. A view: the text outlives it. REQUIRES: ParseJson reads the text.
class JsonText {
 public:
  explicit JsonText(std::string_view text);

  bool is_string() const { return text_.front() == '"'; }
  bool is_array() const { return text_.front() == '['; }
  bool is_object() const { return text_.front() == '{'; }
  bool is_number() const { return text_.front() == '-' || (text_.front() >= '0' && text_.front() <= '9'); }

  // As it is written, without white space around it.
  std::string_view text() const { return text_; }
  // What a string says. REQUIRES: it is one.
  std::string string() const;
  // Of an array, in order; empty for anything else.
  std::vector<JsonText> items() const;
  // Of an object, in order; a key that is there twice has its last value. Empty for anything else.
  std::vector<std::pair<std::string, JsonText>> fields() const;

  // The value at a dotted path ("answers.0.value"); nullopt: there is none.
  std::optional<JsonText> At(std::string_view path) const;
  // As PrintJson prints it, but for the numbers.
  std::string Compact() const;

 private:
  std::string_view text_;
};

}  // namespace ingot::base
