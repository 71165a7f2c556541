// Text of programs for JSON. A program's bytes come in parts that may end within a character.
#pragma once

#include <string>
#include <string_view>

namespace ingot::execution {

// Gives the whole characters among the bytes so far; bytes that are no UTF-8 become '?'.
class Utf8Text {
 public:
  std::string Add(std::string_view bytes);
  std::string Rest();  // a character that stayed incomplete, as '?'

 private:
  std::string left_;  // the beginning of a character
};

// `bytes` as a whole.
std::string ValidUtf8(std::string_view bytes);

}  // namespace ingot::execution
