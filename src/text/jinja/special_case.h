// Lists code points whose uppercase form has several code points.
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
