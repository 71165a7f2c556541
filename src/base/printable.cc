#include "base/printable.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_format.h"

namespace ingot::base {
namespace {

constexpr char kMargin[] = "\n    | ";

// The character at the beginning of a text.
struct Character {
  uint32_t value = 0;
  size_t bytes = 0;  // 0 = the text begins with no character (RFC 3629)
};

Character First(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0}; };
  const uint8_t first = byte(0), second = byte(1);
  if (first < 0x80) return {first, 1};
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return {};
  uint32_t value = first & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3F);
  }
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool no_scalar = (first == 0xED && second >= 0xA0) || (first == 0xF4 && second >= 0x90);
  return overlong || no_scalar ? Character{} : Character{value, length};
}

struct Range {
  uint32_t first, last;
};

// Characters that steer a terminal, change the direction of the text around them, or are not seen. The joiners U+200C and
// U+200D are not among them: scripts and emoji need them.
constexpr std::array<Range, 11> kHidden = {{{0x00, 0x1F},
                                            {0x7F, 0x9F},
                                            {0xAD, 0xAD},
                                            {0x61C, 0x61C},
                                            {0x180E, 0x180E},
                                            {0x200B, 0x200B},
                                            {0x200E, 0x200F},
                                            {0x2028, 0x202E},
                                            {0x2060, 0x206F},
                                            {0xFFF9, 0xFFFB},
                                            {0xE0000, 0xE007F}}};
constexpr uint32_t kByteOrderMark = 0xFEFF;

bool IsHidden(uint32_t c) {
  return c == kByteOrderMark || std::any_of(kHidden.begin(), kHidden.end(),
                                            [c](const Range& range) { return range.first <= c && c <= range.last; });
}

std::string EscapeOf(uint32_t c) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\t':
      return "\\t";
    case '\r':
      return "\\r";
    default:
      break;
  }
  if (c < 0x80) return absl::StrFormat("\\x%02x", c);
  return c < 0x10000 ? absl::StrFormat("\\u%04x", c) : absl::StrFormat("\\U%08x", c);
}

// The next character of `text` as it is printed, or its first byte if it begins with none. `bytes`: their number.
std::string Next(std::string_view text, const PrintableOptions& options, size_t& bytes) {
  const Character c = First(text);
  bytes = std::max<size_t>(c.bytes, 1);
  if (c.bytes == 1 && options.quoted && (c.value == '"' || c.value == '\\')) return {'\\', text[0]};
  if (c.bytes > 0 && IsHidden(c.value) && !(options.ascii && c.bytes > 1)) return EscapeOf(c.value);
  if (c.bytes == 1 || (c.bytes > 1 && !options.ascii)) return std::string(text.substr(0, bytes));
  std::string escaped;
  for (const char byte : text.substr(0, bytes)) {
    escaped += absl::StrFormat("\\x%02x", static_cast<uint8_t>(byte));
  }
  return escaped;
}

}  // namespace

std::string Printable(std::string_view text, const PrintableOptions& options) {
  std::string out;
  out.reserve(std::min(text.size(), options.max_bytes));
  while (!text.empty()) {
    size_t bytes = 0;
    const std::string next = Next(text, options, bytes);
    if (next.size() > options.max_bytes - out.size()) break;
    out += next;
    text.remove_prefix(bytes);
  }
  return out;
}

bool IsPrintable(std::string_view text) {
  while (!text.empty()) {
    const Character c = First(text);
    if (c.bytes == 0 || IsHidden(c.value)) return false;
    text.remove_prefix(c.bytes);
  }
  return true;
}

std::string PrintableLines(std::string_view text) {
  std::string out;
  while (true) {
    const size_t end = text.find('\n');
    out += Printable(text.substr(0, end));
    if (end == std::string_view::npos || end + 1 == text.size()) return out;
    out += kMargin;
    text.remove_prefix(end + 1);
  }
}

}  // namespace ingot::base
