#include "text/tokenizer/split_pattern.h"

#include <gtest/gtest.h>

#include <random>

#include "text/text_samples.h"

namespace ingot::text {
namespace {

// The patterns that have a hand-written matcher.
constexpr std::string_view kKnown[] = {
    // GPT-2
    kGpt2Pattern,
    // Llama 3
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    // Qwen 2 and 3
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    // Qwen 3.5
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    // GPT-4o
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    // Kimi
    R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    // DeepSeek-V3, first pattern
    R"(\p{N}{1,3})",
    // DeepSeek-V3, second pattern
    "[一-龥぀-ゟ゠-ヿ]+",
    // DeepSeek-V3, third pattern; it contains raw newlines
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
    "?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
};

class ByEngine final : public SplitPattern {
 public:
  explicit ByEngine(std::shared_ptr<const Regex> regex) : regex_(std::move(regex)) {}
  bool Find(std::string_view text, size_t from, Regex::Match* match) const override {
    return regex_->Find(text, from, match);
  }

 private:
  const std::shared_ptr<const Regex> regex_;
};

std::shared_ptr<const SplitPattern> Engine(std::string_view pattern) {
  auto regex = Regex::Compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status();
  return std::make_shared<ByEngine>(*regex);
}

// `text` with brackets around every match.
std::string Marked(const SplitPattern& pattern, std::string_view text) {
  std::string out;
  size_t done = 0;
  MatchIterator matches(pattern, text);
  for (Regex::Match match; matches.Next(&match); done = match.end) {
    out += text.substr(done, match.begin - done);
    out += "[" + std::string(text.substr(match.begin, match.end - match.begin)) + "]";
  }
  return out + std::string(text.substr(done));
}

std::string Marked(std::string_view pattern, std::string_view text) { return Marked(*Engine(pattern), text); }

TEST(KnownPatternTest, MatchesLikeTheEngine) {
  std::mt19937 rng(1);
  for (const std::string_view pattern : kKnown) {
    const auto known = KnownPattern(pattern);
    ASSERT_NE(known, nullptr);
    const auto engine = Engine(pattern);
    for (int i = 0; i < 6000; ++i) {
      const std::string text = RandomText(rng, 1 + rng() % 12);
      ASSERT_EQ(Marked(*known, text), Marked(*engine, text)) << pattern;
    }
  }
}

TEST(KnownPatternTest, ClassifiesEveryCharacterLikeTheEngine) {
  for (const std::string_view pattern : kKnown) {
    const auto known = KnownPattern(pattern);
    const auto engine = Engine(pattern);
    std::string text;
    for (uint32_t c = 0; c < 0x110000; c += c < 0x3400 || (c >= 0x10000 && c < 0x13000) || c == 0x1E000 ? 1 : 13) {
      if (c >= 0xD800 && c < 0xE000) continue;
      AppendUtf8(c, text);
      text += c % 3 == 0 ? "a " : c % 3 == 1 ? "A" : "!";
      if (text.size() < 2000) continue;
      ASSERT_EQ(Marked(*known, text), Marked(*engine, text)) << pattern << " about U+" << std::hex << c;
      text.clear();
    }
  }
}

TEST(KnownPatternTest, AnUnknownPatternIsLeftToTheEngine) {
  EXPECT_EQ(KnownPattern("\\p{N}{1,4}"), nullptr);
  EXPECT_EQ(Marked("\\p{N}{1,4}", "12345 6"), "[1234][5] [6]");
}

TEST(MatchIteratorTest, AnEmptyMatchRightAfterAnotherIsSkipped) {
  EXPECT_EQ(Marked("x*", "axb"), "[]a[x]b[]");  // the empty match between x and b is skipped
  EXPECT_EQ(Marked("x*", ""), "");
  EXPECT_EQ(Marked("", "é"), "[]é[]");
}

TEST(RegexTest, MatchesLikeOniguruma) {
  EXPECT_EQ(Marked("\\s", "a\xC2\x85 \xE2\x80\x8B\xEF\xBB\xBF"), "a[\xC2\x85][ ]\xE2\x80\x8B\xEF\xBB\xBF");
  EXPECT_EQ(Marked("[aeiou&&[^e]]", "queue"), "q[u]e[u]e");
  EXPECT_EQ(Marked("[^a[bc]]", "abcd"), "abc[d]");
  EXPECT_EQ(Marked("[\\S&&\\W]", "a ²!"), "a [²][!]");  // in a class, \w has no superscripts
  EXPECT_EQ(Marked("\\w", "²!"), "[²]!");               // outside a class it has
  EXPECT_EQ(Marked("a{,2}b", "aaab"), "a[aab]");
  EXPECT_EQ(Marked("(?:a{1,2}+)b", "aaaab"), "[aaaab]");  // {1,2}+ is repeated, not possessive
  EXPECT_EQ(Marked("a++a", "aaa"), "aaa");                // ++ is possessive
  EXPECT_EQ(Marked("^b$", "a\nb\nc"), "a\n[b]\nc");
  EXPECT_EQ(Marked("(?m:.)", "\n"), "[\n]");
  EXPECT_EQ(Marked(".", "\n"), "\n");
  EXPECT_EQ(Marked("\\h+", "xBEef"), "x[BEef]");
  EXPECT_EQ(Marked("\\p{^L}|\\P{^Lu}", "aB1"), "a[B][1]");
  EXPECT_EQ(Marked("(?i:K)", "kK\xE2\x84\xAA"), "[k][K][\xE2\x84\xAA]");
  EXPECT_EQ(Marked("{|}|a{x", "{}a{x"), "[{][}][a{x]");
  EXPECT_EQ(Marked("\\bb", "ab b"), "ab [b]");
}

TEST(RegexTest, KnowsTheCharactersOfUnicode16) {
  const std::string garay = "\xF0\x90\xB5\x90";      // U+10D50, Lu since 16.0
  const std::string extension = "\xF0\xB1\x8D\x90";  // U+31350, Han since 15.0
  EXPECT_EQ(Marked("\\p{Lu}", garay), "[" + garay + "]");
  EXPECT_EQ(Marked("[\\p{Han}]", extension), "[" + extension + "]");
  EXPECT_EQ(Marked("\\p{Cn}", garay), garay);
}

TEST(RegexTest, UnsupportedConstructsAreNamed) {
  for (const auto& [pattern, name] : std::vector<std::pair<std::string, std::string>>{{"\\p{Alphabetic}", "Alphabetic"},
                                                                                      {"(?<a>x)", "named group"},
                                                                                      {"a(?i)b", "(?i)"},
                                                                                      {"\\R", "\\R"},
                                                                                      {"[[:alpha:]]", "[:alpha:]"},
                                                                                      {"(?x:a b)", "'x'"},
                                                                                      {"(a)\\1", "\\1"},
                                                                                      {"a{2}?", "{n}?"}}) {
    const auto regex = Regex::Compile(pattern);
    EXPECT_EQ(regex.status().code(), absl::StatusCode::kUnimplemented) << pattern;
    EXPECT_NE(std::string(regex.status().message()).find(name), std::string::npos) << regex.status();
  }
}

TEST(RegexTest, MalformedExpressionsAreRejectedAndNoneCrashes) {
  for (const char* pattern :
       {"(", ")", "[a", "a)", "*a", "\\", "\\p{L", "\\p", "[z-a]", "\\x{110000}", "(?<=a*)b", "[[:space]"}) {
    EXPECT_EQ(Regex::Compile(pattern).status().code(), absl::StatusCode::kInvalidArgument) << pattern;
  }
  std::mt19937 rng(5);
  const std::string alphabet = "()[]{}\\|*+?^$.,-&:!<>=imxpPsSwWdDLN12a ";
  for (int i = 0; i < 4000; ++i) {
    std::string pattern;
    for (int k = rng() % 12; k > 0; --k) pattern += alphabet[rng() % alphabet.size()];
    const auto regex = Regex::Compile(pattern);
    if (regex.ok()) Marked(*std::make_shared<ByEngine>(*regex), RandomText(rng, 4));
  }
  EXPECT_FALSE(Regex::Compile(std::string(5000, '(')).ok());
}

TEST(RegexTest, ARunawayExpressionEnds) {
  EXPECT_EQ(Marked("(?:a+)+b", std::string(40, 'a')), std::string(40, 'a'));
  const std::string spaces(1 << 20, ' ');
  EXPECT_EQ(Marked("(?:\\s|x)+", spaces), "[" + spaces + "]");
}

}  // namespace
}  // namespace ingot::text
