// Splits Jinja source into tokens. Uses trim_blocks and lstrip_blocks, as chat templates require.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ingot::text::jinja {

struct Token {
  enum class Kind {
    kData,
    kVariableBegin,
    kVariableEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,   // text: the unescaped string
    kInteger,  // text: digits without underscores, including the prefix
    kFloat,
    kOperator,
    kEnd,
  };
  Kind kind;
  std::string text;
  int line;
};

// Returns all tokens, ending with kEnd. Throws TemplateError{kSyntax}.
std::vector<Token> Tokenize(std::string_view source);

}  // namespace ingot::text::jinja
