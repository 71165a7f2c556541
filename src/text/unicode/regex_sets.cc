#include "text/unicode/regex_sets.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/unicode/unicode.h"
#include "text/unicode/unicode_data.h"

namespace ingot::text {
namespace {

void AppendRange(uint32_t first, uint32_t last, std::string& out) {
  out += HexEscape(first);
  if (last > first) out += "-" + HexEscape(last);
}

// Returns the ranges of all code points that `has` accepts, without surrogates.
template <typename Has>
std::string Ranges(const Has& has) {
  std::string out;
  for (uint32_t c = 0; c < 0x110000; ++c) {
    if ((c >= 0xD800 && c < 0xE000) || !has(c)) continue;
    uint32_t last = c;
    while (last + 1 < 0x110000 && !(last + 1 >= 0xD800 && last + 1 < 0xE000) && has(last + 1)) ++last;
    AppendRange(c, last, out);
    c = last;
  }
  return out;
}

constexpr std::string_view kCategoryNames[kCategories] = {"Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd",
                                                          "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
                                                          "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};

}  // namespace

std::string HexEscape(uint32_t c) { return absl::StrCat("\\x{", absl::Hex(c), "}"); }

std::optional<std::string> CategoryItems(std::string_view name) {
  uint32_t mask = 0;
  for (int i = 0; i < kCategories; ++i) {
    const bool match = name == kCategoryNames[i] || (name.size() == 1 && kCategoryNames[i][0] == name[0]);
    if (match) mask |= 1u << i;
  }
  if (mask == 0) return std::nullopt;
  // PCRE2's table may have an older version of Unicode, so newer characters are added. A set that has lost characters
  // since then is written out in full.
  const auto has = [&](Category category) { return (mask >> static_cast<int>(category) & 1) != 0; };
  if (has(Category::kCn) || has(Category::kMn) != has(Category::kMc)) {
    return Ranges([&](uint32_t c) { return has(Unicode().CategoryOf(c)); });
  }
  std::string items = absl::StrCat("\\p{", base::View(name), "}");
  for (const CategoryRange& range : kSinceUnicode14) {
    if (has(range.category)) AppendRange(range.first, range.last, items);
  }
  return items;
}

std::optional<std::string> ScriptItems(std::string_view name) {
  if (name == "Han") return Ranges([](uint32_t c) { return (Unicode().FlagsOf(c) & kHan) != 0; });
  static constexpr std::pair<std::string_view, std::string_view> kScripts[] = {
      // each with the characters added since Unicode 14
      {"Hiragana", "\\x{1b132}"},
      {"Katakana", "\\x{1b155}"},
      {"Hangul", ""},
      {"Thai", ""},
      {"Latin", "\\x{a7cb}-\\x{a7cd}\\x{a7da}-\\x{a7dc}\\x{1df25}-\\x{1df2a}"},
      {"Cyrillic", "\\x{1c89}\\x{1c8a}\\x{1e030}-\\x{1e06d}\\x{1e08f}"},
      {"Arabic", "\\x{897}\\x{10ec2}-\\x{10ec4}\\x{10efc}-\\x{10eff}"},
  };
  for (const auto& [script, later] : kScripts) {
    if (script == name) return absl::StrCat("\\p{", base::View(name), "}", base::View(later));
  }
  return std::nullopt;
}

const std::string& SpaceItems() {
  static const std::string items = Ranges([](uint32_t c) { return (Unicode().FlagsOf(c) & kSpace) != 0; });
  return items;
}

const std::string& WordItems(bool in_class) {
  static const std::string within = Ranges([](uint32_t c) { return IsWordCharacter(c) && c != 0x200C && c != 0x200D; });
  static const std::string alone = "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}" + within;
  return in_class ? within : alone;
}

}  // namespace ingot::text
