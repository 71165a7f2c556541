// Scanners that find the end of a value in text that arrives in pieces, looking at each byte once. They only count
// brackets outside strings; a parser must check whether the value is well-formed.
#pragma once

#include <cstddef>
#include <string_view>

namespace ingot::text {

enum class Scan { kMore, kDone, kFailed };

// Scans one JSON value. kFailed: a byte that no JSON has outside a string, or nesting deeper than base::ParseJson
// allows.
class JsonScanner {
 public:
  // Adds to `used` the number of bytes of `text` that belong to the value. An object, array or string ends with its
  // last byte; any other value ends before the byte that follows it.
  Scan Feed(std::string_view text, size_t& used) { return Feed(text, "", true, used); }
  // The same, and fails at a `stop` outside a string, which is a text that begins like JSON. Unless `final`, a possible
  // beginning of `stop` is not used; feed it again with more text behind it.
  Scan Feed(std::string_view text, std::string_view stop, bool final, size_t& used);

 private:
  int depth_ = 0;
  bool started_ = false, scalar_ = false, in_string_ = false, escaped_ = false;
};

// Scans one Python literal, up to a comma or a closing bracket that is not its own (not used). Knows '...', "..." and
// their triple forms.
class PythonScanner {
 public:
  // `final`: no text follows `text`. Unless `final`, feed unused bytes again with more text behind them.
  Scan Feed(std::string_view text, bool final, size_t& used);

 private:
  int depth_ = 0;
  char quote_ = 0;
  bool triple_ = false, escaped_ = false;
};

}  // namespace ingot::text
