#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "text/jinja/chars.h"
#include "text/jinja/error.h"

namespace ingot::text::jinja {
namespace {

// Returns the source with \n for every line break, and without the last line break.
std::string Normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      out += '\n';
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
int HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Longer operators come first.
constexpr std::array<std::string_view, 26> kOperators = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                         "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                         ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> Run() {
    while (at_ < source_.size()) Root();
    Emit(Token::Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void Error(const std::string& what) const { FailSyntax(what, line_); }
  bool At(std::string_view text) const { return source_.substr(at_).starts_with(text); }
  void Emit(Token::Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void Advance(size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + at_, source_.begin() + to, '\n'));
    if (to > at_) line_starting_ = source_[to - 1] == '\n';
    at_ = to;
  }
  size_t SkipSpace(size_t at) const {
    while (at < source_.size()) {
      size_t next = at;
      if (!IsSpace(NextCharacter(source_, next))) break;
      at = next;
    }
    return at;
  }

  // Returns the next tag at or after at_, or npos if there is none.
  size_t FindTag() const {
    for (size_t open = source_.find('{', at_); open != source_.npos; open = source_.find('{', open + 1)) {
      if (open + 1 < source_.size() && std::string_view("%{#").find(source_[open + 1]) != std::string_view::npos) {
        return open;
      }
    }
    return source_.npos;
  }

  void Root() {
    const size_t tag = FindTag();
    if (tag == source_.npos) {
      Emit(Token::Kind::kData, std::string(source_.substr(at_)));
      return Advance(source_.size());
    }
    const char type = source_[tag + 1];
    const char sign =
        tag + 2 < source_.size() && (source_[tag + 2] == '-' || source_[tag + 2] == '+') ? source_[tag + 2] : 0;
    EmitData(tag, sign, type != '{');
    const size_t inside = tag + 2 + (sign != 0);
    if (type == '#') return Comment(inside);
    if (type == '%' && Raw(inside)) return;
    Emit(type == '{' ? Token::Kind::kVariableBegin : Token::Kind::kBlockBegin, "");
    Advance(inside);
    Inside(type == '{');
  }

  // Emits the text up to `tag`, stripped according to the tag's sign and lstrip_blocks. Moves to `tag`.
  void EmitData(size_t tag, char sign, bool lstrip) {
    std::string_view text = source_.substr(at_, tag - at_);
    if (sign == '-') {
      text = text.substr(0, StripRange(text, false, true, nullptr).end);
    } else if (sign != '+' && lstrip) {
      const size_t newline = text.rfind('\n');
      const size_t begin = newline == text.npos ? 0 : newline + 1;
      const std::string_view last = text.substr(begin);
      const Range rest = StripRange(last, true, false, nullptr);
      if ((begin > 0 || line_starting_) && rest.begin == last.size()) text = text.substr(0, begin);
    }
    if (!text.empty()) Emit(Token::Kind::kData, std::string(text));
    Advance(tag);
  }

  // Returns the position after the end of a block or comment. -%} skips whitespace, %} one line feed, +%} nothing.
  size_t AfterEnd(size_t end, char sign) const {
    if (sign == '-') return SkipSpace(end);
    return sign == 0 && end < source_.size() && source_[end] == '\n' ? end + 1 : end;
  }

  void Comment(size_t inside) {
    const size_t close = source_.find("#}", inside);
    if (close == source_.npos) Error("Missing end of comment tag");
    const char sign =
        close > inside && (source_[close - 1] == '-' || source_[close - 1] == '+') ? source_[close - 1] : 0;
    Advance(AfterEnd(close + 2, sign));
  }

  // Reads {% raw %} ... {% endraw %}. Returns false if it is another block.
  bool Raw(size_t inside) {
    size_t at = SkipSpace(inside);
    if (!source_.substr(at).starts_with("raw")) return false;
    at = SkipSpace(at + 3);
    if (source_.substr(at).starts_with("-%}")) {
      at = SkipSpace(at + 3);
    } else if (source_.substr(at).starts_with("%}")) {
      at += 2;
    } else {
      return false;
    }
    Advance(at);
    for (size_t open = source_.find("{%", at); open != source_.npos; open = source_.find("{%", open + 1)) {
      size_t end = open + 2;
      char sign = 0;
      if (end < source_.size() && (source_[end] == '-' || source_[end] == '+')) sign = source_[end++];
      end = SkipSpace(end);
      if (!source_.substr(end).starts_with("endraw")) continue;
      end = SkipSpace(end + 6);
      char end_sign = 0;
      if (end < source_.size() && (source_[end] == '-' || source_[end] == '+')) end_sign = source_[end++];
      if (!source_.substr(end).starts_with("%}")) continue;
      EmitData(open, sign, true);
      Advance(AfterEnd(end + 2, end_sign));
      return true;
    }
    Error("Missing end of raw directive");
  }

  // Reads the tokens of {{ ... }} or {% ... %}, starting after the opening delimiter.
  void Inside(bool variable) {
    const std::string_view close = variable ? "}}" : "%}";
    brackets_.clear();
    while (at_ < source_.size()) {
      if (brackets_.empty()) {
        const char sign = source_[at_] == '-' || (!variable && source_[at_] == '+') ? source_[at_] : 0;
        if (source_.substr(at_ + (sign != 0)).starts_with(close)) {
          Emit(variable ? Token::Kind::kVariableEnd : Token::Kind::kBlockEnd, "");
          const size_t end = at_ + (sign != 0) + 2;
          return Advance(variable && sign == 0 ? end : AfterEnd(end, sign));
        }
      }
      Lexeme();
    }
  }

  void Lexeme() {
    if (const size_t space = SkipSpace(at_); space > at_) return Advance(space);
    size_t next = at_;
    const char32_t c = NextCharacter(source_, next);
    if (IsDigit(source_[at_])) return Number();
    if (IsWord(c)) return Name();
    if (c == '\'' || c == '"') return String();
    for (const std::string_view op : kOperators) {
      if (!At(op)) continue;
      Balance(op);
      Emit(Token::Kind::kOperator, std::string(op));
      return Advance(at_ + op.size());
    }
    Error(absl::StrCat("unexpected char '", std::string(source_.substr(at_, next - at_)), "' at ", at_));
  }

  void Balance(std::string_view op) {
    if (op == "{") brackets_ += '}';
    if (op == "(") brackets_ += ')';
    if (op == "[") brackets_ += ']';
    if (op != "}" && op != ")" && op != "]") return;
    if (brackets_.empty()) Error(absl::StrCat("unexpected '", std::string(op), "'"));
    const char expected = brackets_.back();
    brackets_.pop_back();
    if (op[0] != expected) {
      Error(absl::StrCat("unexpected '", std::string(op), "', expected '", std::string(1, expected), "'"));
    }
  }

  void Name() {
    size_t end = at_;
    while (end < source_.size()) {
      size_t next = end;
      if (!IsWord(NextCharacter(source_, next))) break;
      end = next;
    }
    Emit(Token::Kind::kName, std::string(source_.substr(at_, end - at_)));
    Advance(end);
  }

  // Returns the end of the digits at `at`, which may have single underscores between them.
  size_t Digits(size_t at, int base) const {
    const auto is = [&](size_t i) {
      return i < source_.size() && HexDigit(source_[i]) >= 0 && HexDigit(source_[i]) < base;
    };
    while (is(at) || (at < source_.size() && source_[at] == '_' && is(at + 1))) ++at;
    return at;
  }

  void Number() {
    const auto finish = [this](Token::Kind kind, size_t end) {
      std::string text(source_.substr(at_, end - at_));
      std::erase(text, '_');
      Emit(kind, std::move(text));
      Advance(end);
    };
    const char second = at_ + 1 < source_.size() ? static_cast<char>(source_[at_ + 1] | 0x20) : 0;
    const int base = source_[at_] != '0' ? 10 : second == 'x' ? 16 : second == 'o' ? 8 : second == 'b' ? 2 : 10;
    if (base != 10 && Digits(at_ + 2, base) > at_ + 2) return finish(Token::Kind::kInteger, Digits(at_ + 2, base));
    size_t end = Digits(at_, 10);
    bool is_float = false;
    if (at_ == 0 || source_[at_ - 1] != '.') {
      if (end + 1 < source_.size() && source_[end] == '.' && IsDigit(source_[end + 1])) {
        end = Digits(end + 1, 10);
        is_float = true;
      }
      if (end < source_.size() && (source_[end] | 0x20) == 'e') {
        size_t exponent = end + 1;
        if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
        if (exponent < source_.size() && IsDigit(source_[exponent])) {
          end = Digits(exponent, 10);
          is_float = true;
        }
      }
    }
    finish(is_float ? Token::Kind::kFloat : Token::Kind::kInteger, end);
  }

  char32_t HexEscape(size_t& at, int digits) const {
    char32_t c = 0;
    for (int i = 0; i < digits; ++i, ++at) {
      const int digit = at < source_.size() ? HexDigit(source_[at]) : -1;
      if (digit < 0) Error("truncated \\x, \\u or \\U escape");
      c = c * 16 + static_cast<char32_t>(digit);
    }
    if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) Error("illegal Unicode character in an escape");
    return c;
  }

  // Reads a Python escape. An unknown one stays as written.
  void Escape(size_t& at, std::string& out) const {
    constexpr std::string_view kFrom = "abfnrtv\\'\"", kTo = "\a\b\f\n\r\t\v\\'\"";
    const char c = source_[at++];
    if (c == '\n') return;
    if (const size_t simple = kFrom.find(c); simple != kFrom.npos) {
      out += kTo[simple];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      AppendUtf8(HexEscape(at, c == 'x' ? 2 : c == 'u' ? 4 : 8), out);
    } else if (c >= '0' && c <= '7') {
      char32_t value = static_cast<char32_t>(c - '0');
      for (int i = 0; i < 2 && at < source_.size() && source_[at] >= '0' && source_[at] <= '7'; ++i) {
        value = value * 8 + static_cast<char32_t>(source_[at++] - '0');
      }
      AppendUtf8(value, out);
    } else if (c == 'N') {
      Error("\\N{...} escapes are not supported: write the character itself");
    } else {
      out += {'\\', c};
    }
  }

  void String() {
    const char quote = source_[at_];
    std::string out;
    size_t at = at_ + 1;
    while (at < source_.size() && source_[at] != quote) {
      if (source_[at] != '\\') {
        out += source_[at++];
      } else if (++at < source_.size()) {
        Escape(at, out);
      }
    }
    if (at >= source_.size()) Error(absl::StrCat("unexpected char '", std::string(1, quote), "' at ", at_));
    Emit(Token::Kind::kString, std::move(out));
    Advance(at + 1);
  }

  const std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::string brackets_;  // closing brackets that are still expected
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Tokenize(std::string_view source) {
  const std::string normalized = Normalized(source);
  return Lexer(normalized).Run();
}

}  // namespace ingot::text::jinja
