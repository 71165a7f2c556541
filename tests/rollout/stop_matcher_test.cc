#include "rollout/sampling/stop_matcher.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "rollout/fake_tokenizer.h"

namespace ingot::rollout {
namespace {

// Pushes all; returns {index of the token that matched, stop string}, or {-1, ""}.
std::pair<int, std::string> FirstMatch(const std::vector<std::string>& pieces, const std::vector<std::string>& stops,
                                       const std::vector<int32_t>& ids, bool strips = false) {
  StopMatcher matcher(std::make_shared<PieceTokenizer>(pieces, strips), stops, 0);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (const int stop = matcher.Push(ids[i]); stop >= 0) return {static_cast<int>(i), matcher.stop(stop)};
  }
  return {-1, ""};
}

using Match = std::pair<int, std::string>;

TEST(StopMatcherTest, FindsAStopStringInsideAToken) {
  EXPECT_EQ(FirstMatch({"a", "xENDy"}, {"END"}, {0, 1}), Match(1, "END"));
}

TEST(StopMatcherTest, FindsAStopStringAcrossTokenBorders) {
  EXPECT_EQ(FirstMatch({"a", "xE", "N", "Dy"}, {"END"}, {0, 1, 2, 3}), Match(3, "END"));
  EXPECT_EQ(FirstMatch({"a", "EN", "E", "ND"}, {"END"}, {1, 2, 3}), Match(2, "END")) << "after a false start";
}

TEST(StopMatcherTest, DoesNotMatchThePromptsText) { EXPECT_EQ(FirstMatch({"EN", "D"}, {"END"}, {1}), Match(-1, "")); }

TEST(StopMatcherTest, ReturnsTheStringThatEndsFirstThenTheLongest) {
  EXPECT_EQ(FirstMatch({"", "abcd"}, {"cd", "b"}, {1}), Match(0, "b"));
  EXPECT_EQ(FirstMatch({"", "abcd"}, {"cd", "bcd"}, {1}), Match(0, "bcd"));
}

TEST(StopMatcherTest, TextOfSkippedTokensIsNoPartOfAStopString) {
  StopMatcher matcher(std::make_shared<PieceTokenizer>(std::vector<std::string>{"", "xEN", "D", "END"}, false), {"END"},
                      0);
  matcher.Skip(3);
  matcher.Skip(1);
  EXPECT_EQ(matcher.Push(2), -1) << "its beginning was skipped";
  EXPECT_EQ(matcher.Push(1), -1);
  EXPECT_EQ(matcher.Push(2), 0);
}

TEST(StopMatcherTest, MatchesBytesOfAnIncompleteCharacter) {
  EXPECT_EQ(FirstMatch({"", "\xe2", "\x82", "\xac!"}, {"\xe2\x82\xac"}, {1, 2, 3}), Match(2, "\xe2\x82\xac"));
}

TEST(StopMatcherTest, FindsALeadingSpaceThatTheTokenizerDrops) {
  EXPECT_EQ(FirstMatch({"x", "a", " end"}, {" end"}, {1, 2}, /*strips=*/true), Match(1, " end"));
}

// Compares it with a search of the whole text after every token.
TEST(StopMatcherTest, AgreesWithSearchingTheWholeText) {
  const std::vector<std::string> pieces = {"a", "b", "ab", "ba", "aab", ""};
  for (uint64_t seed = 0; seed < 500; ++seed) {
    uint64_t n = 0;
    const auto random = [&](uint64_t below) { return base::DeriveSeed(seed, n++) % below; };
    std::vector<std::string> stops(1 + random(3));
    for (std::string& stop : stops) {
      for (size_t length = 3 + random(5); stop.size() < length;) stop += random(2) ? 'a' : 'b';
    }
    StopMatcher matcher(std::make_shared<PieceTokenizer>(pieces), stops, 0);
    std::string text;
    for (int i = 0; i < 60; ++i) {
      const int32_t id = static_cast<int32_t>(random(pieces.size()));
      text += pieces[id];
      size_t first_end = std::string::npos;
      for (const std::string& stop : stops) {
        if (const size_t at = text.find(stop); at != std::string::npos)
          first_end = std::min(first_end, at + stop.size());
      }
      const int matched = matcher.Push(id);
      ASSERT_EQ(matched >= 0, first_end != std::string::npos) << text;
      if (matched < 0) continue;
      ASSERT_EQ(text.find(matcher.stop(matched)) + matcher.stop(matched).size(), first_end);
      break;
    }
  }
}

}  // namespace
}  // namespace ingot::rollout
