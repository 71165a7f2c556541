#include "text/shared_list.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace ingot::text {
namespace {

using List = SharedList<std::string>;

TEST(SharedList, ACopySharesItsEntriesUntilOneIsChanged) {
  List first = {"a", "b"};
  List second = first;
  EXPECT_EQ(&first[0], &second[0]);
  second.Mutable(0) += "!";
  EXPECT_EQ(first[0], "a");
  EXPECT_EQ(second[0], "a!");
  EXPECT_EQ(&first[1], &second[1]);
  first.Mutable(1) += "?";  // also the list that was copied
  EXPECT_EQ(second[1], "b");
  second.resize(1);
  EXPECT_EQ(second.size(), 1u);
  EXPECT_EQ(first.size(), 2u);
}

TEST(SharedList, WhatWasMadeOfAnEntryIsMadeOnceForAllListsThatHaveIt) {
  static constexpr char kLength = 0, kTwice = 0;
  int made = 0;
  const auto length = [&made](const std::string& text) {
    ++made;
    return text.size();
  };
  List first = {"abc", "de"};
  EXPECT_EQ(*first.Derived<size_t>(0, &kLength, length), 3u);
  List second = first;
  EXPECT_EQ(*second.Derived<size_t>(0, &kLength, length), 3u);
  EXPECT_EQ(made, 1);
  EXPECT_EQ(*second.Derived<std::string>(0, &kTwice, [](const std::string& text) { return text + text; }), "abcabc");
  EXPECT_EQ(*second.Derived<size_t>(1, &kLength, length), 2u);
  EXPECT_EQ(made, 2);
  second.Mutable(0) = "changed";
  EXPECT_EQ(*second.Derived<size_t>(0, &kLength, length), 7u);
  EXPECT_EQ(*first.Derived<size_t>(0, &kLength, length), 3u);
  List alone = {"x"};
  EXPECT_EQ(*alone.Derived<size_t>(0, &kLength, length), 1u);
  alone.Mutable(0) = "xy";
  EXPECT_EQ(*alone.Derived<size_t>(0, &kLength, length), 2u);
}

TEST(SharedList, EntriesMayBeSharedByListsOfSeveralThreads) {
  static constexpr char kLength = 0;
  const List list = {"abc", "de", "f"};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&list, t] {
      for (int i = 0; i < 1000; ++i) {
        List own = list;
        for (size_t at = 0; at < own.size(); ++at) {
          EXPECT_EQ(*own.Derived<size_t>(at, &kLength, [](const std::string& text) { return text.size(); }), 3 - at);
        }
        own.Mutable(static_cast<size_t>(t) % 3) += "x";
        EXPECT_EQ(list[0], "abc");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ingot::text
