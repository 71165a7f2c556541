#include "text/output/python_literal.h"

#include <algorithm>

#include "base/big_integer.h"
#include "base/utf8.h"
#include "text/python_json.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::text {
namespace {

namespace json = base::json;

constexpr int kMaxDepth = 100;  // like base::ParseJson
constexpr std::string_view kSpace = " \t\r\n";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsWord(char c) { return IsDigit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// A recursive-descent parser, at most kMaxDepth deep. Every method returns false if the text is not a literal.
class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : text_(text) {}

  std::optional<std::string> Run() {
    std::string out;
    if (!Value(out, 0)) return std::nullopt;
    Space();
    if (at_ != text_.size()) return std::nullopt;
    return out;
  }

 private:
  void Space() { at_ = std::min(text_.find_first_not_of(kSpace, at_), text_.size()); }
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool Consume(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }

  bool Value(std::string& out, int depth) {
    Space();
    if (depth > kMaxDepth) return false;
    const char c = Peek();
    if (c == '[') return Items('[', ']', out, depth);
    if (c == '(') return Items('(', ')', out, depth);
    if (c == '{') return Dict(out, depth);
    if (IsString()) {
      std::string text;
      if (!Strings(text)) return false;
      out += JsonString(text);
      return true;
    }
    if (IsDigit(c) || c == '-' || c == '+' || c == '.') return Number(out);
    const size_t begin = at_;
    while (IsWord(Peek())) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word == "True" || word == "true") {
      out += "true";
    } else if (word == "False" || word == "false") {
      out += "false";
    } else if (word == "None" || word == "null") {
      out += "null";
    } else {
      return false;
    }
    return true;
  }

  // Reads a list or a tuple; (x) is x itself.
  bool Items(char open, char close, std::string& out, int depth) {
    Consume(open);
    std::string items;
    size_t count = 0;
    bool comma = false;
    for (Space(); Peek() != close; Space()) {
      if (count > 0 && !comma) return false;
      if (count > 0) items += ", ";
      if (!Value(items, depth + 1)) return false;
      ++count;
      Space();
      comma = Consume(',');
    }
    Consume(close);
    out += open == '(' && count == 1 && !comma ? items : absl::StrCat("[", items, "]");
    return true;
  }

  bool Dict(std::string& out, int depth) {
    Consume('{');
    out += '{';
    bool first = true, comma = false;
    for (Space(); Peek() != '}'; Space()) {
      if (!first && !comma) return false;
      if (!first) out += ", ";
      first = false;
      std::string key;
      if (!IsString() || !Strings(key)) return false;
      Space();
      if (!Consume(':')) return false;
      out += JsonString(key) + ": ";
      if (!Value(out, depth + 1)) return false;
      Space();
      comma = Consume(',');
    }
    Consume('}');
    out += '}';
    return true;
  }

  bool Number(std::string& out) {
    std::string number;
    if (Consume('-')) {
      number += '-';
    } else {
      Consume('+');
    }
    const size_t whole = number.size();
    Digits(number);
    size_t count = number.size() - whole;
    if (count > 1 && number[whole] == '0') {
      if (number.find_first_not_of('0', whole) != std::string::npos) return false;  // Python has no 012
      number.resize(whole + 1);
    }
    if (count == 0) number += '0';
    if (Consume('.')) {
      const size_t point = number.size();
      number += '.';
      Digits(number);
      if (number.size() == point + 1) {
        if (count == 0) return false;
        number += '0';
      }
      ++count;
    }
    if (count == 0) return false;
    if (Peek() == 'e' || Peek() == 'E') {
      number += text_[at_++];
      if (Peek() == '-' || Peek() == '+') number += text_[at_++];
      const size_t exponent = number.size();
      Digits(number);
      if (number.size() == exponent) return false;
    }
    if (IsWord(Peek())) return false;
    out += number;
    return true;
  }

  void Digits(std::string& out) {
    while (IsDigit(Peek()) || (Peek() == '_' && at_ > 0 && IsDigit(text_[at_ - 1]))) {
      if (Peek() != '_') out += Peek();
      ++at_;
    }
  }

  bool IsString() const {
    const char c = Peek();
    if (c == '\'' || c == '"') return true;
    const char next = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    return (c == 'r' || c == 'R' || c == 'u' || c == 'U') && (next == '\'' || next == '"');
  }

  // Reads one string, or several adjacent strings, which Python joins.
  bool Strings(std::string& out) {
    while (IsString()) {
      const bool raw = Peek() == 'r' || Peek() == 'R';
      if (Peek() != '\'' && Peek() != '"') ++at_;
      if (!OneString(raw, out)) return false;
      Space();
    }
    return true;
  }

  bool OneString(bool raw, std::string& out) {
    const char quote = text_[at_];
    const bool triple = text_.size() - at_ >= 3 && text_[at_ + 1] == quote && text_[at_ + 2] == quote;
    at_ += triple ? 3 : 1;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == quote && (!triple || text_.substr(at_).starts_with(std::string(3, quote)))) {
        at_ += triple ? 3 : 1;
        return true;
      }
      ++at_;
      if (c != '\\') {
        out += c;
        continue;
      }
      if (at_ == text_.size()) return false;
      if (raw) {
        out += c;
        out += text_[at_++];
      } else if (!Escape(out)) {
        return false;
      }
    }
    return false;
  }

  bool Escape(std::string& out) {
    const char c = text_[at_++];
    constexpr std::string_view kFrom = "ntrabfv0\\'\"", kTo = {"\n\t\r\a\b\f\v\0\\'\"", 11};
    if (c == '\n') return true;  // a continued line
    const size_t simple = kFrom.find(c);
    if (simple != std::string_view::npos) {
      out += kTo[simple];
      return true;
    }
    const int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {  // an unknown escape keeps both characters, as in Python
      out += '\\';
      out += c;
      return true;
    }
    uint32_t code = 0;
    if (!Hex(digits, code)) return false;
    // JSON may write one character as two surrogates.
    if (code >= 0xD800 && code < 0xDC00 && text_.substr(at_).starts_with("\\u")) {
      at_ += 2;
      uint32_t low = 0;
      if (!Hex(4, low) || low < 0xDC00 || low > 0xDFFF) return false;
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
    base::AppendUtf8(code, out);
    return true;
  }

  bool Hex(int digits, uint32_t& code) {
    if (text_.size() - at_ < static_cast<size_t>(digits)) return false;
    for (int i = 0; i < digits; ++i) {
      const char h = text_[at_++];
      const int value = IsDigit(h)             ? h - '0'
                        : h >= 'a' && h <= 'f' ? h - 'a' + 10
                        : h >= 'A' && h <= 'F' ? h - 'A' + 10
                                               : -1;
      if (value < 0) return false;
      code = code * 16 + value;
    }
    return true;
  }

  const std::string_view text_;
  size_t at_ = 0;
};

void AppendPython(const json::value& value, std::string& out) {
  if (const std::string_view digits = base::BigInteger(value); !digits.empty()) {
    out += digits;
  } else if (value.is_object()) {
    out += '{';
    bool first = true;
    for (const auto& field : value.get_object()) {
      if (!first) out += ", ";
      first = false;
      AppendPython(json::value(json::string(field.key())), out);
      out += ": ";
      AppendPython(field.value(), out);
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    for (const json::value& item : value.get_array()) {
      if (&item != value.get_array().begin()) out += ", ";
      AppendPython(item, out);
    }
    out += ']';
  } else if (value.is_string()) {
    const std::string_view text = value.get_string();
    const char quote =
        text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"' : '\'';
    out += quote;
    for (const char c : text) {
      if (c == quote || c == '\\') {
        out += '\\';
        out += c;
      } else if (c == '\n' || c == '\r' || c == '\t') {
        out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
      } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
        constexpr char kHex[] = "0123456789abcdef";
        out += "\\x";
        out += kHex[c >> 4];
        out += kHex[c & 15];
      } else {
        out += c;
      }
    }
    out += quote;
  } else if (value.is_bool()) {
    out += value.get_bool() ? "True" : "False";
  } else if (value.is_null()) {
    out += "None";
  } else {
    out += PythonJson(value);
  }
}

}  // namespace

std::string JsonString(std::string_view text) { return PythonJson(json::value(json::string(ToUtf8(text)))); }

std::optional<std::string> JsonOfPython(std::string_view text) { return PythonReader(text).Run(); }

std::string PythonOfJson(const json::value& value) {
  std::string out;
  AppendPython(value, out);
  return out;
}

}  // namespace ingot::text
