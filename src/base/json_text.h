// Reads JSON text without converting it, counts its values, and repairs it. Numbers keep all their digits, which
// base/json.h values (64-bit integers and doubles) may lose. Used to pass tasks to agents, and by verifiers that
// compare answers digit by digit.
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

// Returns the number of values in well-formed `text`, in linear time. This is a better bound on parsing memory than the
// number of bytes. The result is meaningless for malformed text.
size_t CountJsonValues(std::string_view text);

// Returns `text` with each unpaired escaped surrogate replaced by U+FFFD (RFC 8259, section 8.2: "\ud83d" without its
// second half). Clients that split strings between UTF-16 code units send these. Returns nullopt if `text` has none.
std::optional<std::string> WithoutLoneSurrogates(std::string_view text);

// A view of one value in JSON text. The text must outlive it. REQUIRES: ParseJson accepts the text.
class JsonText {
 public:
  explicit JsonText(std::string_view text);

  bool is_string() const { return text_.front() == '"'; }
  bool is_array() const { return text_.front() == '['; }
  bool is_object() const { return text_.front() == '{'; }
  bool is_number() const { return text_.front() == '-' || (text_.front() >= '0' && text_.front() <= '9'); }

  // Returns the value's text without surrounding whitespace.
  std::string_view text() const { return text_; }
  // Returns a string's content. REQUIRES: is_string().
  std::string string() const;
  // Returns an array's items in order, or nothing for other values.
  std::vector<JsonText> items() const;
  // Returns an object's fields in order, or nothing for other values. If a key is repeated, its last value is used.
  std::vector<std::pair<std::string, JsonText>> fields() const;

  // Returns the value at a dotted path ("answers.0.value"), or nullopt if there is none.
  std::optional<JsonText> At(std::string_view path) const;
  // Returns the same output as PrintJson, except that numbers keep their digits.
  std::string Compact() const;

 private:
  std::string_view text_;
};

}  // namespace ingot::base
