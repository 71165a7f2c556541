// Implements hand-written matchers for the pre-tokenization patterns of GPT-2, Llama 3, Qwen, GPT-4o, Kimi, and
// DeepSeek-V3. Each tries the pattern's alternatives in order, as the comments show. In each alternative, backtracking
// can stop at only one place. A test compares every matcher with the general engine.
#include <array>
#include <vector>

#include "text/tokenizer/split_pattern.h"
#include "text/unicode/unicode.h"

namespace ingot::text {
namespace {

// The flags of ASCII characters, which avoid the two-stage table.
struct Ascii {
  std::array<uint8_t, 128> flags;
  Ascii() {
    for (uint32_t c = 0; c < 128; ++c) flags[c] = Unicode().FlagsOf(c);
  }
};

class Text {
 public:
  explicit Text(std::string_view text) : text_(text), unicode_(Unicode()), ascii_(AsciiFlags()) {}

  bool End(size_t at) const { return at >= text_.size(); }
  char Byte(size_t at) const { return at < text_.size() ? text_[at] : '\0'; }
  bool IsNewline(size_t at) const { return Byte(at) == '\n' || Byte(at) == '\r'; }

  struct Char {
    uint8_t flags = 0;
    uint32_t size = 0;  // 0 = end of the text
  };
  Char At(size_t at) const {
    if (at >= text_.size()) return {};
    const auto byte = static_cast<uint8_t>(text_[at]);
    if (byte < 0x80) return {ascii_[byte], 1};
    const CodePoint c = DecodeAt(text_, at);
    return {unicode_.FlagsOf(c.value), c.size};
  }

  // Returns the end of the run at `at` of characters that have one of `flags` and none of `without`.
  size_t RunOf(size_t at, uint8_t flags, uint8_t without = 0) const {
    for (Char c = At(at); c.size != 0 && (c.flags & flags) && !(c.flags & without); c = At(at)) at += c.size;
    return at;
  }
  // Returns the end of the run at `at` of characters that have none of `flags`.
  size_t RunWithout(size_t at, uint8_t flags) const {
    for (Char c = At(at); c.size != 0 && !(c.flags & flags); c = At(at)) at += c.size;
    return at;
  }
  size_t Newlines(size_t at) const {
    while (IsNewline(at)) ++at;
    return at;
  }
  size_t NumberRun(size_t at, int most) const {
    for (int i = 0; i < most; ++i) {
      const Char c = At(at);
      if (!(c.flags & kNumber)) break;
      at += c.size;
    }
    return at;
  }

  // Matches (?i:'s|'t|'re|'ve|'m|'ll|'d), or the same without (?i:). Returns `at` if it does not match. With (?i:),
  // U+017F matches s.
  size_t Contraction(size_t at, bool any_case) const {
    if (Byte(at) != '\'') return at;
    const auto letter = [&](size_t i) {
      const char c = Byte(i);
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    };
    const char first = letter(at + 1);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
    if (any_case && first == '\xC5' && Byte(at + 2) == '\xBF') return at + 3;
    const char second = letter(at + 2);
    if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l')) {
      return at + 3;
    }
    return at;
  }

  // Matches \s*[\r\n]+|\s+(?!\S)|\s+ (the first alternative only with `lines`). Returns `at` if there is no whitespace.
  size_t Spaces(size_t at, bool lines) const {
    size_t end = at;
    size_t last = at;          // start of the run's last character
    size_t after_newline = 0;  // end of the run's last newline; 0 = none
    for (Char c = At(end); c.size != 0 && (c.flags & kSpace); c = At(end)) {
      last = end;
      end += c.size;
      if (IsNewline(last)) after_newline = end;
    }
    if (lines && after_newline != 0) return after_newline;
    if (End(end) || last == at) return end;
    return last;
  }

 private:
  static const std::array<uint8_t, 128>& AsciiFlags() {
    static const Ascii ascii;
    return ascii.flags;
  }
  const std::string_view text_;
  const UnicodeTables& unicode_;
  const std::array<uint8_t, 128>& ascii_;
};

// A pattern that matches at every position.
template <typename Matcher>
class Everywhere final : public SplitPattern {
 public:
  explicit Everywhere(Matcher matcher) : matcher_(matcher) {}
  bool Find(std::string_view text, size_t from, Regex::Match* match) const override {
    if (from >= text.size()) return false;
    *match = {from, matcher_(Text(text), from)};
    return true;
  }

 private:
  const Matcher matcher_;
};

template <typename Matcher>
std::shared_ptr<const SplitPattern> MakeEverywhere(Matcher matcher) {
  return std::make_shared<Everywhere<Matcher>>(matcher);
}

struct Gpt2 {
  size_t operator()(const Text& text, size_t at) const {
    const size_t contraction = text.Contraction(at, false);
    if (contraction != at) return contraction;
    const size_t word = at + (text.Byte(at) == ' ' ? 1 : 0);  //  ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+
    const uint8_t flags = text.At(word).flags;
    if (flags & kLetter) return text.RunOf(word, kLetter);
    if (flags & kNumber) return text.RunOf(word, kNumber);
    if (!text.End(word) && !(flags & kSpace)) return text.RunWithout(word, kSpace | kLetter | kNumber);
    return text.Spaces(at, false);
  }
};

// Llama 3 (three digits), Qwen 2 and 3 (one digit), Qwen 3.5 (one digit, and marks belong to words).
struct Gpt4 {
  int digits;
  uint8_t word_flags;  // kLetter, with or without kMark

  size_t operator()(const Text& text, size_t at) const {
    const size_t contraction = text.Contraction(at, true);
    if (contraction != at) return contraction;
    const Text::Char first = text.At(at);
    if (!(first.flags & (kLetter | kNumber)) && !text.IsNewline(at)) {  // [^\r\n\p{L}\p{N}]?\p{L}+
      const size_t word = at + first.size;
      const size_t end = text.RunOf(word, word_flags);
      if (end != word) return end;
    }
    if (first.flags & word_flags) return text.RunOf(at, word_flags);
    if (first.flags & kNumber) return text.NumberRun(at, digits);
    const uint8_t others = kSpace | kNumber | word_flags;  //  ?[^\s\p{L}\p{N}]+[\r\n]*
    const size_t symbols = at + (text.Byte(at) == ' ' ? 1 : 0);
    const size_t end = text.RunWithout(symbols, others);
    if (end != symbols) return text.Newlines(end);
    return text.Spaces(at, true);
  }
};

// GPT-4o, or Kimi if `han`. In Kimi's, runs of Han are separate pieces and never part of a word.
struct O200k {
  bool han;

  static constexpr uint8_t kNotLower = kUpper | kUncased | kMark;
  static constexpr uint8_t kNotUpper = kLower | kUncased | kMark;

  // Matches [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+. If it does not match, returns `at` and sets
  // `upper_end` to the end of the first run. Backtracking stops after the last character that both runs may contain.
  size_t Lower(const Text& text, size_t at, size_t* upper_end) const {
    const uint8_t without = han ? kHan : 0;
    size_t end = at;
    size_t after_either = at;
    for (Text::Char c = text.At(end); (c.flags & kNotLower) && !(c.flags & without); c = text.At(end)) {
      end += c.size;
      if (c.flags & (kUncased | kMark)) after_either = end;
    }
    *upper_end = end;
    const size_t lower = text.RunOf(end, kNotUpper, without);
    return lower != end ? lower : after_either;
  }

  size_t operator()(const Text& text, size_t at) const {
    const Text::Char first = text.At(at);
    if (han && (first.flags & kHan)) return text.RunOf(at, kHan);
    const bool prefix = !(first.flags & (kLetter | kNumber)) && !text.IsNewline(at);
    size_t upper_after_prefix = 0;
    size_t upper = 0;
    if (prefix) {
      const size_t word = at + first.size;
      const size_t end = Lower(text, word, &upper_after_prefix);
      if (end != word) return text.Contraction(end, true);
    }
    if (first.flags & (kLetter | kMark)) {
      const size_t end = Lower(text, at, &upper);
      if (end != at) return text.Contraction(end, true);
    }
    // The second alternative can only be a run of capitals. If lowercase followed, the first would have matched.
    if (prefix && upper_after_prefix != at + first.size) return text.Contraction(upper_after_prefix, true);
    if (upper > at) return text.Contraction(upper, true);
    if (first.flags & kNumber) return text.NumberRun(at, 3);
    const size_t symbols = at + (text.Byte(at) == ' ' ? 1 : 0);  //  ?[^\s\p{L}\p{N}]+[\r\n/]*
    size_t end = text.RunWithout(symbols, kSpace | kLetter | kNumber);
    if (end != symbols) {
      while (text.IsNewline(end) || (!han && text.Byte(end) == '/')) ++end;
      return end;
    }
    return text.Spaces(at, true);
  }
};

// DeepSeek-V3's \p{N}{1,3}, which does not match everywhere.
class Numbers final : public SplitPattern {
 public:
  bool Find(std::string_view view, size_t from, Regex::Match* match) const override {
    const Text text(view);
    const size_t at = text.RunWithout(from, kNumber);
    if (text.End(at)) return false;
    *match = {at, text.NumberRun(at, 3)};
    return true;
  }
};

// DeepSeek-V3's [一-龥぀-ゟ゠-ヿ]+: U+4E00 to U+9FA5, Hiragana and Katakana.
class ChineseJapanese final : public SplitPattern {
 public:
  bool Find(std::string_view text, size_t from, Regex::Match* match) const override {
    size_t at = from;
    while (at < text.size() && !Has(text, at)) at += DecodeAt(text, at).size;
    if (at >= text.size()) return false;
    size_t end = at;
    while (end < text.size() && Has(text, end)) end += 3;
    *match = {at, end};
    return true;
  }

 private:
  static bool Has(std::string_view text, size_t at) {
    const auto lead = static_cast<uint8_t>(text[at]);
    if (lead < 0xE3 || lead > 0xE9) return false;
    const uint32_t c = DecodeAt(text, at).value;
    return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF);
  }
};

// DeepSeek-V3's third pattern. It does not match at some digits and controls. The caller handles the gap.
class DeepSeek final : public SplitPattern {
 public:
  bool Find(std::string_view view, size_t from, Regex::Match* match) const override {
    const Text text(view);
    for (size_t at = from; !text.End(at); at += text.At(at).size) {
      const size_t end = MatchAt(text, at);
      if (end == at) continue;
      *match = {at, end};
      return true;
    }
    return false;
  }

 private:
  static bool IsAsciiLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

  static size_t MatchAt(const Text& text, size_t at) {
    const Text::Char first = text.At(at);
    if (first.size == 1 && (first.flags & kGraphic) && IsAsciiLetter(text.Byte(at + 1))) {
      size_t end = at + 1;
      while (IsAsciiLetter(text.Byte(end))) ++end;
      return end;
    }
    if (!(first.flags & (kLetter | kGraphic)) && !text.IsNewline(at)) {  // [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
      const size_t word = at + first.size;
      const size_t end = text.RunOf(word, kLetter | kMark);
      if (end != word) return end;
    }
    if (first.flags & (kLetter | kMark)) return text.RunOf(at, kLetter | kMark);
    const size_t symbols = at + (text.Byte(at) == ' ' ? 1 : 0);  //  ?[\p{P}\p{S}]+[\r\n]*
    const size_t end = text.RunOf(symbols, kGraphic);
    if (end != symbols) return text.Newlines(end);
    return text.Spaces(at, true);
  }
};

struct KnownSplit {
  std::string_view text;
  std::shared_ptr<const SplitPattern> pattern;
};

const std::vector<KnownSplit>& AllKnown() {
  static const auto* const all = new std::vector<KnownSplit>{
      {kGpt2Pattern, MakeEverywhere(Gpt2{})},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       MakeEverywhere(Gpt4{3, kLetter})},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       MakeEverywhere(Gpt4{1, kLetter})},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       MakeEverywhere(Gpt4{1, kLetter | kMark})},
      {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       MakeEverywhere(O200k{false})},
      {R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       MakeEverywhere(O200k{true})},
      {R"(\p{N}{1,3})", std::make_shared<Numbers>()},
      {"[一-龥぀-ゟ゠-ヿ]+", std::make_shared<ChineseJapanese>()},
      // The file has raw newlines instead of \r and \n.
      {"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
       "?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
       std::make_shared<DeepSeek>()},
  };
  return *all;
}

}  // namespace

std::shared_ptr<const SplitPattern> KnownPattern(std::string_view pattern) {
  for (const KnownSplit& known : AllKnown()) {
    if (known.text == pattern) return known.pattern;
  }
  return nullptr;
}

}  // namespace ingot::text
