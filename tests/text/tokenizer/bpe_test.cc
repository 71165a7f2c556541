#include "text/tokenizer/bpe.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "text/text_samples.h"
#include "text/unicode/unicode.h"

namespace ingot::text {
namespace {

// Random merges over an alphabet, as training would find them: each joins two existing tokens.
BpeDefinition RandomDefinition(std::mt19937& rng, const std::vector<std::string>& alphabet, int merges, bool bytes) {
  BpeDefinition definition;
  definition.bytes = bytes;
  definition.fallback_ids.fill(-1);
  std::map<std::string, int32_t> ids;
  for (const std::string& symbol : alphabet) {
    ids.emplace(symbol, static_cast<int32_t>(definition.tokens.size()));
    definition.tokens.push_back(symbol);
  }
  for (int i = 0; i < merges; ++i) {
    const auto left = static_cast<int32_t>(rng() % definition.tokens.size());
    const auto right = static_cast<int32_t>(rng() % definition.tokens.size());
    const std::string joined = definition.tokens[left] + definition.tokens[right];
    if (joined.size() > 12) continue;
    const auto [found, fresh] = ids.emplace(joined, static_cast<int32_t>(definition.tokens.size()));
    if (fresh) definition.tokens.push_back(joined);
    definition.merges.push_back({left, right, found->second});
  }
  return definition;
}

void AddFallback(BpeDefinition& definition) {
  definition.byte_fallback = true;
  for (int byte = 0; byte < 256; ++byte) {
    definition.fallback_ids[byte] = static_cast<int32_t>(definition.tokens.size());
    definition.tokens.push_back("<0x" + std::to_string(byte) + ">");  // longer than a character, so no text gives it
  }
}

// The definition of BPE: merges the pair of least rank, the leftmost of equals, until there is none.
std::vector<int32_t> Reference(const BpeDefinition& definition, const std::vector<int32_t>& symbols) {
  std::map<std::pair<int32_t, int32_t>, std::pair<size_t, int32_t>> ranks;
  for (size_t rank = 0; rank < definition.merges.size(); ++rank) {
    ranks[{definition.merges[rank].left, definition.merges[rank].right}] = {rank, definition.merges[rank].result};
  }
  std::vector<int32_t> ids = symbols;
  while (true) {
    size_t best = SIZE_MAX;
    size_t where = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = ranks.find({ids[i], ids[i + 1]});
      if (found == ranks.end() || found->second.first >= best) continue;
      best = found->second.first;
      where = i;
    }
    if (best == SIZE_MAX) return ids;
    ids[where] = ranks[{ids[where], ids[where + 1]}].second;
    ids.erase(ids.begin() + where + 1);
  }
}

std::vector<int32_t> Symbols(const BpeDefinition& definition, std::string_view text) {
  std::vector<int32_t> symbols;
  for (size_t at = 0; at < text.size();) {
    const size_t size = definition.bytes ? 1 : DecodeAt(text, at).size;
    const std::string symbol(text.substr(at, size));
    const auto found = std::find(definition.tokens.begin(), definition.tokens.end(), symbol);
    if (found != definition.tokens.end()) {
      symbols.push_back(static_cast<int32_t>(found - definition.tokens.begin()));
    } else if (definition.byte_fallback) {
      for (const char c : symbol) symbols.push_back(definition.fallback_ids[static_cast<uint8_t>(c)]);
    }
    at += size;
  }
  return symbols;
}

std::vector<int32_t> Encoded(const Bpe& bpe, std::string_view text) {
  std::vector<int32_t> ids;
  bpe.Encode(text, ids);
  return ids;
}

TEST(BpeTest, MergesAsTheDefinitionSays) {
  std::mt19937 rng(3);
  for (int round = 0; round < 60; ++round) {
    const bool bytes = round % 2 == 0;
    BpeDefinition definition = RandomDefinition(
        rng, bytes ? std::vector<std::string>{"a", "b", "c"} : std::vector<std::string>{"a", "▁", "é", "中"}, 40,
        bytes);
    if (!bytes && round % 4 == 1) AddFallback(definition);
    const Bpe bpe(definition);
    for (int i = 0; i < 60; ++i) {
      std::string text;
      for (int k = rng() % (i < 40 ? 12 : 150); k > 0; --k) {
        text +=
            bytes ? std::string(1, "abcx"[rng() % 4]) : std::vector<std::string>{"a", "▁", "é", "中", "ü"}[rng() % 5];
      }
      const std::vector<int32_t> expected = Reference(definition, Symbols(definition, text));
      std::vector<int32_t> plain;
      bpe.EncodePlainly(text, plain);
      ASSERT_EQ(plain, expected) << text;
      ASSERT_EQ(Encoded(bpe, text), expected) << text;  // cut at borders; pieces enter the cache
      ASSERT_EQ(Encoded(bpe, text), expected) << text;  // from the cache
    }
  }
}

TEST(BpeTest, UnknownCharactersFuseOrStandAloneOrAreDropped) {
  BpeDefinition definition;
  definition.tokens = {"<unk>", "a", "b", "ab"};
  definition.merges = {{1, 2, 3}};
  definition.fallback_ids.fill(-1);
  EXPECT_EQ(Encoded(Bpe(definition), "axyb"), (std::vector<int32_t>{3}));  // the neighbours of dropped characters meet
  definition.unk = 0;
  EXPECT_EQ(Encoded(Bpe(definition), "axyb"), (std::vector<int32_t>{1, 0, 0, 2}));
  definition.fuse_unk = true;
  EXPECT_EQ(Encoded(Bpe(definition), "axyb"), (std::vector<int32_t>{1, 0, 2}));
  const std::string long_text = std::string(50, 'x') + "ab" + std::string(50, 'y');
  EXPECT_EQ(Encoded(Bpe(definition), long_text), (std::vector<int32_t>{0, 3, 0}));
}

TEST(BpeTest, IgnoreMergesMatchesWholePiecesOnly) {
  BpeDefinition definition;
  definition.tokens = {"a", "b", "c", "abc", "ab"};
  definition.merges = {{0, 1, 4}};
  definition.fallback_ids.fill(-1);
  EXPECT_EQ(Encoded(Bpe(definition), "abc"), (std::vector<int32_t>{4, 2}));
  definition.ignore_merges = true;
  EXPECT_EQ(Encoded(Bpe(definition), "abc"), (std::vector<int32_t>{3}));
  EXPECT_EQ(Encoded(Bpe(definition), "abcabc"), (std::vector<int32_t>{4, 2, 4, 2}));
}

TEST(BpeTest, AMegabyteInOnePieceIsMergedInTime) {  // a quadratic merge would take hours
  std::mt19937 rng(4);
  const Bpe bpe(RandomDefinition(rng, {"a", "b"}, 200, true));
  std::string text(1 << 20, 'a');
  EXPECT_LT(Encoded(bpe, text).size(), text.size());
  for (char& c : text) c = "ab"[rng() % 2];
  EXPECT_LT(Encoded(bpe, text).size(), text.size());
}

TEST(BpeTest, ThreadsAndModelsDoNotMixUpTheirCaches) {
  std::mt19937 rng(6);
  std::vector<std::unique_ptr<Bpe>> models;
  for (int i = 0; i < 6; ++i) models.push_back(std::make_unique<Bpe>(RandomDefinition(rng, {"a", "b", "c"}, 30, true)));
  std::vector<std::string> texts;
  for (int i = 0; i < 300; ++i) {
    texts.emplace_back();
    for (int k = rng() % 10; k > 0; --k) texts.back() += "abc"[rng() % 3];
  }
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 2; ++round) {
        for (const auto& model : models) {  // more models than a thread has caches
          for (const std::string& text : texts) {
            std::vector<int32_t> plain;
            model->EncodePlainly(text, plain);
            if (Encoded(*model, text) != plain) ++wrong;
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace ingot::text
