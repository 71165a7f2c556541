// Finds where a value ends in text that arrives in pieces, one look at each byte. Whether the value is well-formed is
// for a parser to say; these only count brackets outside strings.
#pragma once

#include <cstddef>
#include <string_view>

namespace ingot::text {

enum class Scan { kMore, kDone, kFailed };

// One JSON value. kFailed at a byte that no JSON has outside a string, or deeper than base::ParseJson goes.
class JsonScanner {
 public:
  // Adds to `used` how many bytes of `text` belong to the value. An object, array or string is done with its last byte;
  // any other value before the byte that follows it.
  Scan Feed(std::string_view text, size_t& used) { return Feed(text, "", true, used); }
  // The same, and fails before `stop` outside a string: for a text that begins as JSON may. Unless `final`, what may be
  // its beginning is not used but to be fed again, with more behind it.
  Scan Feed(std::string_view text, std::string_view stop, bool final, size_t& used);

 private:
  int depth_ = 0;
  bool started_ = false, scalar_ = false, in_string_ = false, escaped_ = false;
};

// One Python literal, up to a comma or a closing bracket that is not the literal's own (not used). Knows '...', "..."
// and their triple forms.
class PythonScanner {
 public:
  // `final`: no more text comes after `text`. What `used` does not count is to be fed again, with more behind it.
  Scan Feed(std::string_view text, bool final, size_t& used);

 private:
  int depth_ = 0;
  char quote_ = 0;
  bool triple_ = false, escaped_ = false;
};

}  // namespace ingot::text
