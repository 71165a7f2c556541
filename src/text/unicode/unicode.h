// Provides code point properties and normal forms, as in Hugging Face's `tokenizers`. Properties are from Unicode 16.0,
// which its regular expressions use. Normal forms are from Unicode 9.0, and later characters are left unchanged. Both
// versions are fixed and do not depend on the system's library. Everything is immutable and thread safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace ingot::text {

// clang-format off
enum class Category : uint8_t {
  kCn, kLu, kLl, kLt, kLm, kLo, kMn, kMc, kMe, kNd, kNl, kNo, kPc, kPd, kPs, kPe, kPi, kPf, kPo, kSm, kSc, kSk, kSo,
  kZs, kZl, kZp, kCc, kCf, kCs, kCo,
};
// clang-format on
inline constexpr int kCategories = 30;

// Bits in UnicodeTables::flags: the distinctions that language models' pre-tokenizers make. Several bits may be set.
inline constexpr uint8_t kUpper = 1;     // Lu, Lt
inline constexpr uint8_t kLower = 2;     // Ll
inline constexpr uint8_t kUncased = 4;   // Lm, Lo
inline constexpr uint8_t kMark = 8;      // M
inline constexpr uint8_t kNumber = 16;   // N
inline constexpr uint8_t kGraphic = 32;  // P, S
inline constexpr uint8_t kSpace = 64;    // White_Space (with U+0085, without U+FEFF and U+200B)
inline constexpr uint8_t kHan = 128;     // Script=Han
inline constexpr uint8_t kLetter = kUpper | kLower | kUncased;

// Two-stage tables over all code points, built in a few milliseconds on first use.
struct UnicodeTables {
  uint16_t page[0x1100];
  uint8_t flags[0x1100 * 256];       // equal pages are stored once
  uint8_t categories[0x1100 * 256];  // uses the same pages
  uint8_t FlagsOf(uint32_t c) const { return flags[page[c >> 8] * 256 + (c & 255)]; }
  Category CategoryOf(uint32_t c) const { return static_cast<Category>(categories[page[c >> 8] * 256 + (c & 255)]); }
};
const UnicodeTables& Unicode();

bool IsWordCharacter(uint32_t c);  // \w: letters, marks, decimal digits, connectors, joiners
bool IsNumeric(uint32_t c);        // category N, like Rust's char::is_numeric (Unicode 17)
bool IsPunctuation(uint32_t c);    // ASCII punctuation and category P in Unicode 8, like the Punctuation pre-tokenizer
void AppendLowercase(uint32_t c, std::string& out);

using base::AppendUtf8;
using base::CodePoint;
using base::DecodeAt;
using base::IsValidUtf8;

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };
// Returns `text` in the given normal form. Text already in that form takes only one pass. REQUIRES: valid UTF-8.
std::string Normalize(std::string_view text, NormalForm form);

}  // namespace ingot::text
