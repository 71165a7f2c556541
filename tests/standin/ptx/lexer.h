// Splits PTX into tokens. Comments and white space are dropped.
#pragma once

#include <cstdint>
#include <string_view>

namespace ingot::standin::ptx {

struct Token {
  enum class Kind : uint8_t { kEnd, kWord, kNumber, kString, kSign };

  Kind kind = Kind::kEnd;
  std::string_view
      text;  // a word with its dots ("ld.global.v2.u32"), a number, a string with its quotes, or one character
  uint32_t line = 0;

  bool Is(char sign) const { return kind == Kind::kSign && text[0] == sign; }
  bool Is(std::string_view word) const { return kind == Kind::kWord && text == word; }
};

// Views into `text`, which must outlive the tokens.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Token Next();  // kEnd at the end

 private:
  void SkipBlanks();
  void SkipComment();
  Token Take(Token::Kind kind, size_t length);
  size_t WordLength() const;
  size_t NumberLength() const;
  size_t StringLength() const;
  char At(size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  std::string_view text_;
  size_t at_ = 0;
  uint32_t line_ = 1;
};

}  // namespace ingot::standin::ptx
