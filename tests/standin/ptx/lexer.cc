#include "standin/ptx/lexer.h"

#include <algorithm>

namespace ingot::standin::ptx {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool StartsWord(char c) { return IsLetter(c) || c == '_' || c == '$' || c == '%' || c == '.'; }
bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

}  // namespace

Token Lexer::Next() {
  SkipBlanks();
  const char c = At(0);
  if (at_ >= text_.size()) return {Token::Kind::kEnd, {}, line_};
  if (StartsWord(c)) return Take(Token::Kind::kWord, WordLength());
  if (IsDigit(c)) return Take(Token::Kind::kNumber, NumberLength());
  if (c == '"') return Take(Token::Kind::kString, StringLength());
  return Take(Token::Kind::kSign, 1);
}

void Lexer::SkipBlanks() {
  for (;; ++at_) {
    while (At(0) == '/' && (At(1) == '/' || At(1) == '*')) SkipComment();
    if (at_ >= text_.size() || !IsBlank(text_[at_])) return;
    if (text_[at_] == '\n') ++line_;
  }
}

void Lexer::SkipComment() {
  const bool to_line_end = At(1) == '/';
  const size_t end = text_.find(to_line_end ? "\n" : "*/", at_ + 2);
  const size_t after = end == std::string_view::npos ? text_.size() : end + (to_line_end ? 0 : 2);
  line_ += static_cast<uint32_t>(std::count(text_.begin() + at_, text_.begin() + after, '\n'));
  at_ = after;
}

Token Lexer::Take(Token::Kind kind, size_t length) {
  const Token token{kind, text_.substr(at_, length), line_};
  at_ += length;
  return token;
}

size_t Lexer::WordLength() const {
  size_t n = 1;
  for (;;) {
    const char c = At(n);
    if (StartsWord(c) || IsDigit(c)) {
      ++n;
    } else if (c == ':' && At(n + 1) == ':') {
      n += 2;  // ".shared::cta"
    } else {
      return n;
    }
  }
}

size_t Lexer::NumberLength() const {
  size_t n = 1;
  while (IsDigit(At(n)) || IsLetter(At(n)) || At(n) == '.') ++n;
  return n;
}

size_t Lexer::StringLength() const {
  const size_t end = text_.find('"', at_ + 1);
  return end == std::string_view::npos ? text_.size() - at_ : end + 1 - at_;
}

}  // namespace ingot::standin::ptx
