#include "text/jinja/chars.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>

#include "text/jinja/special_case.h"

namespace ingot::text::jinja {
namespace {

utf8proc_category_t Category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

const SpecialCase* FindSpecial(char32_t c) {
  const auto all = SpecialCases();
  const auto it =
      std::lower_bound(all.begin(), all.end(), c, [](const SpecialCase& row, char32_t at) { return row.from < at; });
  return it != all.end() && it->from == c ? &*it : nullptr;
}

void AppendUpper(char32_t c, std::string& out) {
  if (c < 0x80) {
    out += static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  } else if (const SpecialCase* special = FindSpecial(c)) {
    out += special->upper;
  } else {
    AppendUtf8(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)), out);
  }
}

void AppendTitle(char32_t c, std::string& out) {
  if (const SpecialCase* special = c < 0x80 ? nullptr : FindSpecial(c)) {
    out += special->title;
  } else {
    AppendUtf8(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)), out);
  }
}

// Approximates Unicode's Case_Ignorable by general categories and punctuation.
bool IsCaseIgnorable(char32_t c) {
  switch (Category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x2019 || c == 0x2018 || c == 0x2024 || c == 0x2027;
  }
}

// Returns true if a cased letter comes before the sigma and none comes after it, ignoring case-ignorable characters.
bool IsFinalSigma(std::string_view text, size_t begin, size_t end) {
  bool before = false;
  for (size_t at = begin; at > 0;) {
    const char32_t c = PreviousCharacter(text, at);
    if (IsCaseIgnorable(c)) continue;
    before = IsCased(c);
    break;
  }
  if (!before) return false;
  for (size_t at = end; at < text.size();) {
    const char32_t c = NextCharacter(text, at);
    if (!IsCaseIgnorable(c)) return !IsCased(c);
  }
  return true;
}

void AppendLower(std::string_view text, size_t begin, size_t end, char32_t c, std::string& out) {
  if (c < 0x80) {
    out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  } else if (c == 0x3A3) {
    AppendUtf8(IsFinalSigma(text, begin, end) ? 0x3C2 : 0x3C3, out);
  } else if (c == 0x130) {
    out += "i\u0307";
  } else {
    AppendUtf8(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)), out);
  }
}

}  // namespace

size_t ByteOffset(std::string_view text, size_t index) {
  size_t at = 0;
  for (; at < text.size(); ++at) {
    if (IsContinuation(text[at])) continue;
    if (index-- == 0) return at;
  }
  return at;
}

bool IsSpace(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

bool IsLineBreak(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool IsPrintable(char32_t c) {
  if (c < 0x80) return c >= 0x20 && c < 0x7F;
  switch (Category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool IsAlpha(char32_t c) {
  const auto category = Category(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}
bool IsDecimal(char32_t c) { return Category(c) == UTF8PROC_CATEGORY_ND; }
bool IsNumeric(char32_t c) {
  const auto category = Category(c);
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}
bool IsLower(char32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z';
  return utf8proc_islower(static_cast<utf8proc_int32_t>(c)) != 0;
}
bool IsUpper(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z';
  return utf8proc_isupper(static_cast<utf8proc_int32_t>(c)) != 0;
}
bool IsTitle(char32_t c) { return c >= 0x80 && Category(c) == UTF8PROC_CATEGORY_LT; }

std::string Upper(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) AppendUpper(NextCharacter(text, at), out);
  return out;
}

std::string Lower(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = NextCharacter(text, at);
    AppendLower(text, begin, at, c, out);
  }
  return out;
}

std::string Capitalize(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = NextCharacter(text, at);
    if (begin == 0) {
      AppendTitle(c, out);
    } else {
      AppendLower(text, begin, at, c, out);
    }
  }
  return out;
}

std::string TitleWords(std::string_view text) {
  std::string out;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = NextCharacter(text, at);
    if (inside) {
      AppendLower(text, begin, at, c, out);
    } else {
      AppendTitle(c, out);
    }
    inside = IsCased(c);
  }
  return out;
}

Range StripRange(std::string_view text, bool left, bool right, const std::string_view* chars) {
  const auto strips = [chars](char32_t c) {
    if (chars == nullptr) return IsSpace(c);
    for (size_t at = 0; at < chars->size();) {
      if (NextCharacter(*chars, at) == c) return true;
    }
    return false;
  };
  size_t begin = 0, end = text.size();
  while (left && begin < end) {
    size_t next = begin;
    if (!strips(NextCharacter(text, next))) break;
    begin = next;
  }
  while (right && end > begin) {
    size_t previous = end;
    if (!strips(PreviousCharacter(text, previous))) break;
    end = previous;
  }
  return {begin, end};
}

}  // namespace ingot::text::jinja
