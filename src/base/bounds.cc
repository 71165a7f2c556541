#include "base/bounds.h"

#include <charconv>
#include <cmath>

#include "base/status.h"

namespace ingot::base {
namespace {

// Formats integers without an exponent, and other numbers as the shortest decimal that reads back as the same value.
std::string Decimal(double value) {
  char buffer[40];
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  const auto result = whole ? std::to_chars(buffer, buffer + sizeof(buffer), static_cast<int64_t>(value))
                            : std::to_chars(buffer, buffer + sizeof(buffer), value);
  return {buffer, result.ptr};
}

}  // namespace

bool Bound::Contains(double value) const {
  if (!std::isfinite(value)) return false;
  if (or_zero && value == 0) return true;
  return (above_low ? value > low : value >= low) && (below_high ? value < high : value <= high);
}

std::string Bound::Text() const {
  if (!limits()) return "";
  const std::string zero = or_zero ? "0, or " : "";
  if (high == kNone) {
    if (above_low) return absl::StrCat(zero, "greater than ", Decimal(low));
    return low == 0 ? "0 or greater" : absl::StrCat(zero, "at least ", Decimal(low));
  }
  if (low == -kNone) return absl::StrCat(zero, below_high ? "less than " : "at most ", Decimal(high));
  return absl::StrCat(zero, "in ", above_low ? "(" : "[", Decimal(low), ", ", Decimal(high), below_high ? ")" : "]");
}

}  // namespace ingot::base
