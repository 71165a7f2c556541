#include "text/unicode/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "text/unicode/unicode_data.h"

namespace ingot::text {
namespace {

constexpr uint32_t kLimit = 0x110000;

Category FromLibrary(utf8proc_category_t category) {
  static constexpr Category kMap[] = {Category::kCn, Category::kLu, Category::kLl, Category::kLt, Category::kLm,
                                      Category::kLo, Category::kMn, Category::kMc, Category::kMe, Category::kNd,
                                      Category::kNl, Category::kNo, Category::kPc, Category::kPd, Category::kPs,
                                      Category::kPe, Category::kPi, Category::kPf, Category::kPo, Category::kSm,
                                      Category::kSc, Category::kSk, Category::kSo, Category::kZs, Category::kZl,
                                      Category::kZp, Category::kCc, Category::kCf, Category::kCs, Category::kCo};
  return kMap[category];
}

bool IsWhiteSpace(uint32_t c) {
  return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

uint8_t FlagsFrom(Category category) {
  switch (category) {
    case Category::kLu:
    case Category::kLt:
      return kUpper;
    case Category::kLl:
      return kLower;
    case Category::kLm:
    case Category::kLo:
      return kUncased;
    default:
      break;
  }
  if (category >= Category::kMn && category <= Category::kMe) return kMark;
  if (category >= Category::kNd && category <= Category::kNo) return kNumber;
  if (category >= Category::kPc && category <= Category::kSo) return kGraphic;
  return 0;
}

template <size_t n>
bool Contains(const CodeRange (&ranges)[n], uint32_t c) {
  const auto* end = ranges + n;
  const auto* at = std::lower_bound(ranges, end, c, [](const CodeRange& range, uint32_t v) { return range.last < v; });
  return at != end && at->first <= c;
}

std::unique_ptr<UnicodeTables> BuildTables() {
  auto flat_categories = std::make_unique<uint8_t[]>(kLimit);
  auto flat_flags = std::make_unique<uint8_t[]>(kLimit);
  for (uint32_t c = 0; c < kLimit; ++c) {
    flat_categories[c] = static_cast<uint8_t>(FromLibrary(utf8proc_category(static_cast<utf8proc_int32_t>(c))));
  }
  for (const CategoryRange& range : kSinceUnicode14) {
    std::memset(&flat_categories[range.first], static_cast<int>(range.category), range.last - range.first + 1);
  }
  for (uint32_t c = 0; c < kLimit; ++c) {
    flat_flags[c] = FlagsFrom(static_cast<Category>(flat_categories[c]));
    if (c < 0x3001 && IsWhiteSpace(c)) flat_flags[c] |= kSpace;
  }
  for (const CodeRange& range : kHanRanges) {
    for (uint32_t c = range.first; c <= range.last; ++c) flat_flags[c] |= kHan;
  }
  auto tables = std::make_unique<UnicodeTables>();
  std::unordered_map<std::string, uint16_t> pages;
  for (uint32_t page = 0; page < kLimit / 256; ++page) {
    std::string bytes(reinterpret_cast<const char*>(&flat_flags[page * 256]), 256);
    bytes.append(reinterpret_cast<const char*>(&flat_categories[page * 256]), 256);
    const auto [found, fresh] = pages.emplace(bytes, static_cast<uint16_t>(pages.size()));
    tables->page[page] = found->second;
    if (!fresh) continue;
    std::memcpy(&tables->flags[found->second * 256], bytes.data(), 256);
    std::memcpy(&tables->categories[found->second * 256], bytes.data() + 256, 256);
  }
  return tables;
}

// Returns true if normalization ignores `c`, because in Unicode 9.0 it is neither a mark nor composed nor decomposable.
bool IsInert(uint32_t c) {
  if (c < 0x7FD) return false;
  if (Unicode().CategoryOf(c) == Category::kCn || Contains(kNormalizedSinceUnicode9, c)) return true;
  for (const CategoryRange& range : kSinceUnicode14) {
    if (c >= range.first && c <= range.last) return c != 0x1171E;
  }
  return false;
}

// For each form and code point: whether text that contains it may differ from its normal form.
struct QuickCheck {
  uint8_t suspect[kLimit];  // a bit per form
};

// Marks the second characters of pairs that compose: NFC_Quick_Check=Maybe.
void MarkCompositions(QuickCheck& table) {
  constexpr uint8_t kComposing = 1 << static_cast<int>(NormalForm::kNfc) | 1 << static_cast<int>(NormalForm::kNfkc);
  for (uint32_t c = 0; c < kLimit; ++c) {
    if (c >= 0xAC00 && c < 0xD7A4) continue;
    const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
    if (property->decomp_type != 0 || property->decomp_seqindex == UINT16_MAX) continue;
    utf8proc_uint8_t utf8[4];
    const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), utf8);
    utf8proc_uint8_t* full = nullptr;
    const auto length =
        utf8proc_map(utf8, size, &full, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE));
    const std::string_view decomposed(reinterpret_cast<const char*>(full),
                                      static_cast<size_t>(std::max<long>(length, 0)));
    for (size_t at = 0; at < decomposed.size();) {
      const CodePoint part = DecodeAt(decomposed, at);
      if (at > 0) table.suspect[part.value] |= kComposing;
      at += part.size;
    }
    std::free(full);
  }
  for (uint32_t c = 0x1161; c <= 0x1175; ++c) table.suspect[c] |= kComposing;
  for (uint32_t c = 0x11A8; c <= 0x11C2; ++c) table.suspect[c] |= kComposing;
}

std::string MapForm(std::string_view text, NormalForm form) {
  int options = UTF8PROC_STABLE;
  const bool compose = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  options |= compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::kNfkc || form == NormalForm::kNfkd) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* out = nullptr;
  const auto size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &out, static_cast<utf8proc_option_t>(options));
  if (size < 0) return std::string(text);  // out of memory, or not UTF-8, which the caller excludes
  std::string mapped(reinterpret_cast<const char*>(out), static_cast<size_t>(size));
  std::free(out);
  return mapped;
}

std::unique_ptr<QuickCheck> BuildQuickCheck() {
  auto table = std::make_unique<QuickCheck>();
  for (uint32_t c = 0; c < kLimit; ++c) {
    table->suspect[c] = 0;
    if (c < 0xA0 || (c >= 0xD800 && c < 0xE000) || Unicode().CategoryOf(c) == Category::kCn) continue;
    const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
    if (property->combining_class != 0) table->suspect[c] = 0xF;
    const bool hangul = c >= 0xAC00 && c < 0xD7A4;
    if (property->decomp_seqindex == UINT16_MAX && !hangul) continue;
    std::string self;
    AppendUtf8(c, self);
    for (const auto form : {NormalForm::kNfc, NormalForm::kNfd, NormalForm::kNfkc, NormalForm::kNfkd}) {
      if (MapForm(self, form) != self) table->suspect[c] |= 1 << static_cast<int>(form);
    }
  }
  MarkCompositions(*table);
  return table;
}

const QuickCheck& Checks() {
  static const QuickCheck* const table = BuildQuickCheck().release();
  return *table;
}

}  // namespace

const UnicodeTables& Unicode() {
  static const UnicodeTables* const tables = BuildTables().release();
  return *tables;
}

bool IsWordCharacter(uint32_t c) {
  const Category category = Unicode().CategoryOf(c);
  if (Unicode().FlagsOf(c) & (kLetter | kMark)) return true;
  if (category == Category::kNd || category == Category::kNl || category == Category::kPc) return true;
  return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
         (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

bool IsNumeric(uint32_t c) {
  if (Unicode().FlagsOf(c) & kNumber) return true;
  return (c >= 0x11DE0 && c <= 0x11DE9) || (c >= 0x16FF4 && c <= 0x16FF6);
}

bool IsPunctuation(uint32_t c) {
  if (c < 0x80) return Unicode().FlagsOf(c) & kGraphic;
  if (c == 0x111C9 || c == 0x166D) return true;  // punctuation in Unicode 8 only
  const Category category = Unicode().CategoryOf(c);
  return category >= Category::kPc && category <= Category::kPo && !Contains(kPunctuationSinceUnicode8, c);
}

void AppendLowercase(uint32_t c, std::string& out) {
  if (c < 0x80) {
    out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    return;
  }
  uint32_t lower = static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
  if (c == 0x130) {  // the only unconditional mapping to two characters
    AppendUtf8('i', out);
    lower = 0x307;
  } else if (c == 0x1C89 || (c >= 0xA7CC && c <= 0xA7DA && c % 2 == 0 && c != 0xA7D0 && c != 0xA7D6 && c != 0xA7D8)) {
    lower = c + 1;  // here and below: cased letters added since Unicode 14
  } else if (c == 0xA7CB) {
    lower = 0x264;
  } else if (c == 0xA7DC) {
    lower = 0x19B;
  } else if (c >= 0x10D50 && c <= 0x10D65) {
    lower = c + 32;
  } else if (c >= 0x16EA0 && c <= 0x16EB8) {
    lower = c + 27;
  }
  AppendUtf8(lower, out);
}

std::string Normalize(std::string_view text, NormalForm form) {
  const uint8_t bit = 1 << static_cast<int>(form);
  const QuickCheck& checks = Checks();
  std::string out;
  size_t done = 0;   // end of the text that is in `out`
  size_t start = 0;  // the last place where normalization can restart: a character that joins nothing before it
  for (size_t at = 0; at < text.size();) {
    const auto first = static_cast<uint8_t>(text[at]);
    if (first < 0x80) {
      start = at++;
      continue;
    }
    const CodePoint c = DecodeAt(text, at);
    if (!(checks.suspect[c.value] & bit) || IsInert(c.value)) {
      start = at;
      at += c.size;
      continue;
    }
    // From that starter to the next character that is not suspect and so joins nothing before it.
    size_t end = at + c.size;
    while (end < text.size() && static_cast<uint8_t>(text[end]) >= 0x80) {
      const CodePoint next = DecodeAt(text, end);
      if (!(checks.suspect[next.value] & bit) || IsInert(next.value)) break;
      end += next.size;
    }
    if (start < done || IsInert(DecodeAt(text, start).value)) start = at;
    out += text.substr(done, start - done);
    out += MapForm(text.substr(start, end - start), form);
    done = start = at = end;
  }
  if (done == 0) return std::string(text);
  out += text.substr(done);
  return out;
}

}  // namespace ingot::text
