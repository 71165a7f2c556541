// SpecialCases: the code points whose upper case has more than one code point.
#pragma once

#include <span>

namespace ingot::text::jinja {

struct SpecialCase {
  char32_t from;
  const char* upper;
  const char* title;
};

// Sorted by `from`.
std::span<const SpecialCase> SpecialCases();

}  // namespace ingot::text::jinja
