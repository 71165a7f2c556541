// Scanners that find the end of a value in text that arrives in pieces, looking at each byte once. They only count
// brackets outside strings; a parser must check whether the value is well-formed.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace ingot::text {

enum class Scan { kMore, kDone, kFailed };

// Scans one JSON value. kFailed: a byte that JSON never has outside a string, or nesting deeper than base::ParseJson
// allows.
class JsonScanner {
 public:
  // Adds to `used` the number of bytes of `text` that belong to the value. An object, array or string ends with its
  // last byte; any other value ends before the byte that follows it.
  Scan Feed(std::string_view text, size_t& used) { return Feed(text, "", true, used); }
  // The same, and fails at a `stop` outside a string, which is a text that begins like JSON. Unless `final`, a possible
  // beginning of `stop` is not used; feed it again with more text after it.
  Scan Feed(std::string_view text, std::string_view stop, bool final, size_t& used);

  int depth() const { return depth_; }  // brackets that are open
  bool in_string() const { return in_string_; }

 private:
  int depth_ = 0;
  bool started_ = false, scalar_ = false, in_string_ = false, escaped_ = false;
};

// Finds the envelope of a call after unreadable arguments: literals with any white space around them, at the end of the
// text. So it is not mistaken for arguments.
//
//   {"city": Paris}}\n</tool_call>     after {"city": Paris} come the literals } and </tool_call>
class EnvelopeScanner {
 public:
  EnvelopeScanner() = default;
  // The first `needed` literals are an envelope, with or without more literals. `depth`: the arguments' open brackets;
  // the envelope begins after as many closing brackets. nullopt: it may begin anywhere. The literals outlive the
  // scanner.
  EnvelopeScanner(std::vector<std::string_view> literals, size_t needed, std::optional<int> depth)
      : literals_(std::move(literals)), needed_(needed), depth_(depth) {}

  void Read(char c);
  // The number of bytes at the end of the text that may belong to the envelope.
  size_t held() const { return held_; }
  // Whether they are an envelope, or end within a literal.
  bool whole() const { return needed_ > 0 && found_ >= needed_ && matched_ == 0; }
  bool in_literal() const { return matched_ > 0; }

 private:
  std::vector<std::string_view> literals_;
  size_t needed_ = 0;
  std::optional<int> depth_;
  size_t found_ = 0;    // literals
  size_t matched_ = 0;  // bytes of the next literal
  size_t held_ = 0;
};

// Scans one Python literal, up to a comma or a closing bracket that is not its own (not used). Knows '...', "..." and
// their triple forms.
class PythonScanner {
 public:
  // `final`: no text follows `text`. Unless `final`, feed unused bytes again with more text after them.
  Scan Feed(std::string_view text, bool final, size_t& used);

 private:
  int depth_ = 0;
  char quote_ = 0;
  bool triple_ = false, escaped_ = false;
};

}  // namespace ingot::text
