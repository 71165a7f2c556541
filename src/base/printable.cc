#include "base/printable.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/utf8.h"

namespace ingot::base {
namespace {

constexpr char kMargin[] = "\n    | ";

struct Range {
  uint32_t first, last;
};

// Characters that control a terminal, change the direction of the surrounding text, or are invisible. The joiners
// U+200C and U+200D are allowed because scripts and emoji need them.
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

// Returns the next character in `text` in printable form, or the first byte if `text` does not begin with a character.
// Sets `bytes` to the number of bytes consumed.
std::string Next(std::string_view text, const PrintableOptions& options, size_t& bytes) {
  const CodePoint c = FirstCharacter(text);
  bytes = std::max<size_t>(c.size, 1);
  if (c.size == 1 && options.quoted && (c.value == '"' || c.value == '\\')) return {'\\', text[0]};
  if (c.size > 0 && IsHidden(c.value) && !(options.ascii && c.size > 1)) return EscapeOf(c.value);
  if (c.size == 1 || (c.size > 1 && !options.ascii)) return std::string(text.substr(0, bytes));
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

std::string Shown(std::string_view text) {
  std::string shown = Printable(text.substr(0, kMaxShown + 1));  // escapes are never shorter
  if (shown.size() <= kMaxShown) return shown;
  return absl::StrCat(Printable(text, {.max_bytes = kMaxShown}), ".. (", text.size(), " bytes)");
}

std::string CutMessage(std::string_view message, size_t most) {
  if (message.size() <= most) return std::string(message);
  size_t end = message.size() - most * 3 / 10;
  while (end < message.size() && IsContinuation(message[end])) ++end;
  return absl::StrCat(CutText(message, most * 6 / 10), " .. (", message.size(), " bytes) .. ",
                      View(message.substr(end)));
}

bool IsPrintable(std::string_view text) {
  while (!text.empty()) {
    const CodePoint c = FirstCharacter(text);
    if (c.size == 0 || IsHidden(c.value)) return false;
    text.remove_prefix(c.size);
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
