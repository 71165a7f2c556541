#include "text/output/value_scanner.h"

#include <array>

namespace ingot::text {
namespace {

constexpr int kMaxDepth = 100;  // like base::ParseJson

// The bytes that JSON allows outside strings: whitespace, punctuation, numbers, and the letters in true, false, and
// null.
constexpr std::array<bool, 256> kJsonBytes = [] {
  std::array<bool, 256> table{};
  for (const char c : std::string_view(" \t\r\n{}[],:+-.0123456789eEtrufalsn"))
    table[static_cast<unsigned char>(c)] = true;
  return table;
}();

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool EndsScalar(char c) { return c == ',' || c == '}' || c == ']' || IsSpace(c); }

}  // namespace

Scan JsonScanner::Feed(std::string_view text, std::string_view stop, bool final, size_t& used) {
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
        if (depth_ == 0) {
          used += at + 1;
          return Scan::kDone;
        }
      }
      continue;
    }
    if (!stop.empty() && c == stop[0]) {
      const std::string_view rest = text.substr(at);
      const bool stands = rest.starts_with(stop), may = !final && stop.starts_with(rest);
      if (stands || may) {
        used += at;
        return stands ? Scan::kFailed : Scan::kMore;
      }
    }
    if (scalar_ && EndsScalar(c)) {
      used += at;
      return Scan::kDone;
    }
    const bool open = c == '{' || c == '[', close = c == '}' || c == ']';
    if ((scalar_ && (open || c == '"')) || (!started_ && close) ||
        (c != '"' && !kJsonBytes[static_cast<unsigned char>(c)]) || (open && ++depth_ > kMaxDepth)) {
      used += at;
      return Scan::kFailed;
    }
    if (c == '"') in_string_ = true;
    if (!started_ && !open && c != '"') scalar_ = true;
    started_ = true;
    if (close && --depth_ == 0) {
      used += at + 1;
      return Scan::kDone;
    }
  }
  used += text.size();
  return Scan::kMore;
}

void EnvelopeScanner::Read(char c) {
  const auto goes_on = [&] {
    if (matched_ == 0 && IsSpace(c)) return true;
    if (found_ == literals_.size() || literals_[found_][matched_] != c) return false;
    return found_ + matched_ > 0 || depth_.value_or(0) <= 0;
  };
  bool belongs = goes_on();
  if (!belongs) {
    found_ = matched_ = held_ = 0;
    belongs = goes_on();
  }
  if (depth_.has_value()) *depth_ += (c == '{' || c == '[') - (c == '}' || c == ']');
  if (!belongs) return;
  ++held_;
  if (matched_ == 0 && IsSpace(c)) return;
  if (++matched_ < literals_[found_].size()) return;
  ++found_;
  matched_ = 0;
}

Scan PythonScanner::Feed(std::string_view text, bool final, size_t& used) {
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quote_ != 0) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == quote_) {
        if (triple_) {
          if (at + 2 >= text.size() && !final) {
            used += at;
            return Scan::kMore;
          }
          if (text.substr(at, 3) != std::string_view(std::array{c, c, c}.data(), 3)) continue;
          at += 2;
        }
        quote_ = 0;
      }
      continue;
    }
    if (c == '\'' || c == '"') {
      if (at + 2 >= text.size() && !final) {
        used += at;
        return Scan::kMore;
      }
      quote_ = c;
      triple_ = text.substr(at).size() >= 3 && text[at + 1] == c && text[at + 2] == c;
      if (triple_) at += 2;
    } else if (c == '(' || c == '[' || c == '{') {
      if (++depth_ > kMaxDepth) {
        used += at;
        return Scan::kFailed;
      }
    } else if (depth_ == 0 && (c == ',' || c == ')' || c == ']' || c == '}')) {
      used += at;
      return Scan::kDone;
    } else if (c == ')' || c == ']' || c == '}') {
      --depth_;
    } else if (c == '<' || c == '\xFF') {  // begins no literal, so the turn continued without closing the call
      used += at;
      return Scan::kFailed;
    }
  }
  used += text.size();
  return Scan::kMore;
}

}  // namespace ingot::text
