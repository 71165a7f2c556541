// Finds the end of a value in text that arrives in pieces. Scanners look at each byte once and count only brackets
// outside strings. A parser must check whether the value is well formed.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace ingot::text {

enum class Scan { kMore, kDone, kFailed };

// Scans one JSON value. Fails on a byte that cannot occur outside strings in JSON, and on nesting deeper than
// base::ParseJson allows.
class JsonScanner {
 public:
  // Adds to `used` the number of bytes of `text` that belong to the value. Objects, arrays, and strings end with their
  // last byte. Other values end before the byte that follows them.
  Scan Feed(std::string_view text, size_t& used) { return Feed(text, "", true, used); }
  // Same as above, but also fails at a `stop` outside strings. `stop` is text that begins like JSON. Unless `final` is
  // set, a possible beginning of `stop` is left unread and must be passed again with more text.
  Scan Feed(std::string_view text, std::string_view stop, bool final, size_t& used);

  int depth() const { return depth_; }  // open brackets
  bool in_string() const { return in_string_; }

 private:
  int depth_ = 0;
  bool started_ = false, scalar_ = false, in_string_ = false, escaped_ = false;
};

// Finds a call's envelope after invalid arguments, so that the envelope is not mistaken for arguments. The envelope
// consists of literals at the end of the text, with any whitespace around them.
//
//   {"city": Paris}}\n</tool_call>     {"city": Paris} is followed by the literals } and </tool_call>
class EnvelopeScanner {
 public:
  EnvelopeScanner() = default;
  // The first `needed` literals are enough for an envelope. `depth` is the number of open brackets in the arguments,
  // and the envelope begins after the same number of closing brackets; nullopt = it may begin anywhere. REQUIRES: the
  // literals outlive the scanner.
  EnvelopeScanner(std::vector<std::string_view> literals, size_t needed, std::optional<int> depth)
      : literals_(std::move(literals)), needed_(needed), depth_(depth) {}

  void Read(char c);
  // Returns the number of bytes at the end of the text that may belong to the envelope.
  size_t held() const { return held_; }
  // Return whether the held bytes form an envelope, or end within a literal.
  bool whole() const { return needed_ > 0 && found_ >= needed_ && matched_ == 0; }
  bool in_literal() const { return matched_ > 0; }

 private:
  std::vector<std::string_view> literals_;
  size_t needed_ = 0;
  std::optional<int> depth_;
  size_t found_ = 0;    // number of complete literals
  size_t matched_ = 0;  // matched bytes of the next literal
  size_t held_ = 0;
};

// Scans one Python literal. Stops before a comma or closing bracket that is not part of it. Supports '...', "..." and
// triple-quoted strings.
class PythonScanner {
 public:
  // `final`: true = no text follows `text`. Otherwise, unread bytes must be passed again with more text.
  Scan Feed(std::string_view text, bool final, size_t& used);

 private:
  int depth_ = 0;
  char quote_ = 0;
  bool triple_ = false, escaped_ = false;
};

}  // namespace ingot::text
