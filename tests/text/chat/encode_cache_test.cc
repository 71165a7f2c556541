#include "text/chat/encode_cache.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

namespace ingot::text {
namespace {

TEST(EncodeCache, AlwaysGivesTheTokenizersIds) {
  const auto tokenizer = MakeByteTokenizer({"<|end|>"});
  EncodeCache cache(64 << 10);  // has room for some of the texts
  std::vector<std::string> texts = {"", "short<|end|>"};
  for (int i = 0; i < 30; ++i) texts.push_back(std::string(500 + 37 * i, static_cast<char>('a' + i % 7)) + "<|end|>");
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937 random(static_cast<unsigned>(thread));
      for (int i = 0; i < 2000; ++i) {
        const std::string& text = texts[std::min<size_t>(random() % texts.size(), random() % texts.size())];
        const bool special = random() % 2 == 0;
        std::vector<int32_t> ids = {7};
        cache.Encode(*tokenizer, text, special, ids);
        std::vector<int32_t> wanted = {7};
        for (const int32_t id : tokenizer->Encode(text, special)) wanted.push_back(id);
        ASSERT_EQ(ids, wanted);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(cache.hits(), 1000);
}

TEST(EncodeCache, KeepsOnlyTextsThatRecur) {
  const auto tokenizer = MakeByteTokenizer({});
  EncodeCache cache(1 << 20);
  const std::string system(2000, 's');
  std::vector<int32_t> ids;
  for (int i = 0; i < 4; ++i) cache.Encode(*tokenizer, system, true, ids);
  EXPECT_EQ(cache.hits(), 2);  // seen, cached, hit, hit
  // Unique texts of ten times the cache's size do not evict it.
  for (int i = 0; i < 1000; ++i) cache.Encode(*tokenizer, std::to_string(i) + std::string(10000, 'x'), true, ids);
  cache.Encode(*tokenizer, system, true, ids);
  EXPECT_EQ(cache.hits(), 3);
}

}  // namespace
}  // namespace ingot::text
