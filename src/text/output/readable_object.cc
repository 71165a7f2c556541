#include "text/output/readable_object.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/charconv.h"

namespace ingot::text {
namespace {

// A request nests arguments a few levels deeper, and base::ParseJson reads 100 levels.
constexpr size_t kMaxDepth = 90;
// A client could not send longer numbers back as doubles.
constexpr size_t kMaxNumber = 256;  // bytes
constexpr size_t kUnicodeEscape = 6;

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

uint32_t HexOf(std::string_view digits) {
  uint32_t value = 0;
  for (const char c : digits) value = value * 16 + (IsDigit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
  return value;
}

enum class NumberText { kWrong, kBegun, kWhole };

// Returns whether `text` is a JSON number or the beginning of one.
NumberText JudgeNumber(std::string_view text) {
  size_t at = 0;
  const auto digits = [&] {
    const size_t begin = at;
    while (at < text.size() && IsDigit(text[at])) ++at;
    return at > begin;
  };
  const auto stands = [&](std::string_view any) {
    const bool here = at < text.size() && any.find(text[at]) != std::string_view::npos;
    at += here;
    return here;
  };
  const auto missing = [&] { return at == text.size() ? NumberText::kBegun : NumberText::kWrong; };
  stands("-");
  if (!stands("0") && !digits()) return missing();
  if (stands(".") && !digits()) return missing();
  if (stands("eE")) {
    stands("+-");
    if (!digits()) return missing();
  }
  return at == text.size() ? NumberText::kWhole : NumberText::kWrong;
}

bool IsFinite(std::string_view number) {
  double value = 0;
  const auto read = absl::from_chars(number.data(), number.data() + number.size(), value);
  return read.ec != std::errc::result_out_of_range || std::abs(value) < 1;  // a number that is too small becomes 0
}

}  // namespace

std::string ReadableObject::Push(std::string_view arguments) {
  for (const char c : arguments) {
    if (place_ == Place::kEnd) break;
    if (!Read(c)) emitted_ += Finish();
  }
  return std::exchange(emitted_, {});
}

std::string ReadableObject::Finish() {
  if (place_ == Place::kEnd) return "";
  std::string end;
  if (place_ == Place::kBegin) end = "{}";
  if (place_ == Place::kString) end = "\"";
  for (auto bracket = brackets_.rbegin(); bracket != brackets_.rend(); ++bracket) end += *bracket == '{' ? '}' : ']';
  place_ = Place::kEnd;
  return end;
}

void ReadableObject::EmitHeld() {
  emitted_ += held_;
  held_.clear();
}

bool ReadableObject::Read(char c) {
  if (place_ == Place::kNumber) {
    if (ReadNumber(c)) return true;
    if (JudgeNumber(number_) != NumberText::kWhole) return false;
    place_ = Place::kNext;  // the number ended before this byte
  }
  if (place_ == Place::kString || place_ == Place::kInKey) return ReadString(c);
  if (place_ == Place::kWord) {
    if (word_.front() != c) return false;
    held_ += c;
    word_.remove_prefix(1);
    if (!word_.empty()) return true;
    EmitHeld();
    place_ = Place::kNext;
    return true;
  }
  if (IsSpace(c)) {
    if (place_ != Place::kBegin) held_ += c;
    return true;
  }
  switch (place_) {
    case Place::kBegin:
      return c == '{' && Open(c);
    case Place::kKeyOrEnd:
      if (c == '}') return Close(c);
      [[fallthrough]];
    case Place::kKey:
      if (c != '"') return false;
      held_ += c;
      place_ = Place::kInKey;
      return true;
    case Place::kColon:
      if (c != ':') return false;
      held_ += c;
      place_ = Place::kValue;
      return true;
    case Place::kItemOrEnd:
      if (c == ']') return Close(c);
      [[fallthrough]];
    case Place::kValue:
      return ReadValue(c);
    default:  // kNext
      if (c == '}' || c == ']') return Close(c);
      if (c != ',') return false;
      held_ += c;
      place_ = brackets_.back() == '{' ? Place::kKey : Place::kValue;
      return true;
  }
}

bool ReadableObject::ReadValue(char c) {
  if (c == '{' || c == '[') return Open(c);
  if (c == '"') {
    held_ += c;
    EmitHeld();
    place_ = Place::kString;
    return true;
  }
  if (c == '-' || IsDigit(c)) {
    number_.clear();
    place_ = Place::kNumber;
    return ReadNumber(c);
  }
  for (const std::string_view word : {"true", "false", "null"}) {
    if (word.front() != c) continue;
    held_ += c;
    word_ = word.substr(1);
    place_ = Place::kWord;
    return true;
  }
  return false;
}

bool ReadableObject::ReadString(char c) {
  if (static_cast<unsigned char>(c) < 0x20) return false;
  std::string& text = place_ == Place::kString ? emitted_ : held_;
  if (!escape_.empty() || c == '\\') {
    escape_ += c;
    return ReadEscape();
  }
  text += c;
  if (c == '"') place_ = place_ == Place::kString ? Place::kNext : Place::kColon;
  return true;
}

// Returns false if escape_ is neither an escape nor the beginning of one.
bool ReadableObject::ReadEscape() {
  constexpr std::string_view kShort = "\"\\/bfnrt";
  const size_t begin = escape_.size() > kUnicodeEscape ? kUnicodeEscape : 0;  // of the second of two escapes
  const std::string_view last = std::string_view(escape_).substr(begin);
  if (last.front() != '\\') return false;
  if (last.size() == 1) return true;
  bool whole = false;
  if (last[1] == 'u') {
    if (last.size() > 2 && !IsHex(last.back())) return false;
    if (last.size() < kUnicodeEscape) return true;
    const uint32_t code = HexOf(last.substr(2));
    const bool low = code >= 0xDC00 && code <= 0xDFFF, high = code >= 0xD800 && code < 0xDC00;
    if (low != (begin > 0)) return false;
    whole = !high;
  } else if (begin > 0 || kShort.find(last[1]) == std::string_view::npos) {
    return false;
  } else {
    whole = true;
  }
  if (!whole) return true;
  (place_ == Place::kString ? emitted_ : held_) += std::exchange(escape_, {});
  return true;
}

// Returns false if the number cannot continue with this byte.
bool ReadableObject::ReadNumber(char c) {
  std::string longer = number_ + c;
  const NumberText text = JudgeNumber(longer);
  if (text == NumberText::kWrong || longer.size() > kMaxNumber) return false;
  if (text == NumberText::kWhole && !IsFinite(longer)) return false;
  number_ = std::move(longer);
  held_ += c;
  if (text == NumberText::kWhole) EmitHeld();
  return true;
}

bool ReadableObject::Open(char bracket) {
  if (brackets_.size() == kMaxDepth) return false;
  held_ += bracket;
  EmitHeld();
  brackets_ += bracket;
  place_ = bracket == '{' ? Place::kKeyOrEnd : Place::kItemOrEnd;
  return true;
}

bool ReadableObject::Close(char bracket) {
  if (brackets_.back() != (bracket == '}' ? '{' : '[')) return false;
  held_ += bracket;
  EmitHeld();
  brackets_.pop_back();
  place_ = brackets_.empty() ? Place::kEnd : Place::kNext;
  return true;
}

std::string ReadableObjectText(std::string_view arguments) {
  ReadableObject object;
  std::string text = object.Push(arguments);
  text += object.Finish();
  return text;
}

}  // namespace ingot::text
