// JSON as text: views of its values, their count, and a repair. Numbers keep their digits, which a value of base/json.h
// (64-bit integers and doubles) may lose. Ingot reads a task on its way to an agent this way, and an answer that a
// verifier compares digit by digit.
//
//   {"n": 265252859812191058636308480000000, "l": [1.50, "x"]}
//         `-----------------------------'          `--'          values are parts of the text
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ingot::base {

// The number of values that well-formed `text` has, in linear time. It bounds the memory of parsing better than the
// number of bytes does. The number means nothing for malformed text.
size_t CountJsonValues(std::string_view text);

// `text` with U+FFFD in place of every escaped half of a surrogate pair (RFC 8259, section 8.2: "\ud83d" without its
// second half). Clients that cut strings by UTF-16 units send such halves. nullopt: `text` has none.
std::optional<std::string> WithoutLoneSurrogates(std::string_view text);

// One value of a JSON text. A view: the text outlives it. REQUIRES: ParseJson accepts the text.
class JsonText {
 public:
  explicit JsonText(std::string_view text);

  bool is_string() const { return text_.front() == '"'; }
  bool is_array() const { return text_.front() == '['; }
  bool is_object() const { return text_.front() == '{'; }
  bool is_number() const { return text_.front() == '-' || (text_.front() >= '0' && text_.front() <= '9'); }

  // The value's text without white space around it.
  std::string_view text() const { return text_; }
  // The content of a string. REQUIRES: is_string().
  std::string string() const;
  // The items of an array, in order; empty for any other value.
  std::vector<JsonText> items() const;
  // The fields of an object, in order; a duplicate key keeps its last value. Empty for any other value.
  std::vector<std::pair<std::string, JsonText>> fields() const;

  // The value at a dotted path ("answers.0.value"). nullopt: the value has no such part.
  std::optional<JsonText> At(std::string_view path) const;
  // The text that PrintJson prints, except that numbers keep their digits.
  std::string Compact() const;

 private:
  std::string_view text_;
};

}  // namespace ingot::base
