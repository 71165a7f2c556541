// Random strings for tests of tokenizers: scripts, marks, white space, controls and contractions.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "text/unicode/unicode.h"

namespace ingot::text {

// A random string of valid UTF-8.
inline std::string RandomText(std::mt19937& rng, int parts) {
  static const std::vector<std::string> kParts = {"a",
                                                  "Z",
                                                  "the",
                                                  "Word",
                                                  "HTML",
                                                  "x1",
                                                  "12",
                                                  "3456789",
                                                  " ",
                                                  "  ",
                                                  "   ",
                                                  "\n",
                                                  "\r\n",
                                                  "\t",
                                                  "\n\n",
                                                  "\xC2\x85",
                                                  "\xE2\x80\xA8",
                                                  "\xE3\x80\x80",
                                                  "\xEF\xBB\xBF",
                                                  "\xE2\x80\x8B",
                                                  "'s",
                                                  "'S",
                                                  "'\xC5\xBF",
                                                  "'ll",
                                                  "'RE",
                                                  "'v",
                                                  "'",
                                                  "\xE2\x80\x99",
                                                  "!",
                                                  "...",
                                                  "//",
                                                  "/\n",
                                                  "_",
                                                  "$",
                                                  "+=",
                                                  "<|im_end|>",
                                                  "é",
                                                  "e\xCC\x81",
                                                  "\xCC\x81",
                                                  "\xCD\x85",
                                                  "ß",
                                                  "ǅ",
                                                  "ʰ",
                                                  "İ",
                                                  "中",
                                                  "文字",
                                                  "かな",
                                                  "カ",
                                                  "한국",
                                                  "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8",
                                                  "привет",
                                                  "שלום",
                                                  "العربية",
                                                  "हिन्दी",
                                                  "ไทย",
                                                  "٣",
                                                  "Ⅷ",
                                                  "½",
                                                  "²",
                                                  "〇",
                                                  "々",
                                                  "⺀",
                                                  "\xF0\x96\xBF\xB0",
                                                  "😀",
                                                  "👩‍👩‍👧",
                                                  "🇩🇪",
                                                  "\x01",
                                                  std::string("\0", 1),
                                                  "\x7F",
                                                  "\xEE\x80\x80",
                                                  "\xF3\xA0\x80\x81"};
  std::string text;
  for (int i = 0; i < parts; ++i) {
    if (rng() % 5 != 0) {
      text += kParts[rng() % kParts.size()];
      continue;
    }
    uint32_t c = rng() % (rng() % 2 == 0 ? 0x3100 : 0x110000);
    if (c >= 0xD800 && c < 0xE000) c = 'q';
    AppendUtf8(c, text);
  }
  return text;
}

}  // namespace ingot::text
