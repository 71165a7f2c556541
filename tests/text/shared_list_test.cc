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

TEST(SharedList, WhatAnEntryIsExchangedForIsMadeOnceToo) {
  static constexpr char kLouder = 0, kLength = 0;
  int made = 0, read = 0;
  std::string mark = "!";
  const auto exchange = [&](List& list, size_t i) {
    list.Exchange(
        i, &kLouder, [&](const std::string& copy) { return copy.ends_with(mark); },
        [&](std::string& copy) {
          ++made;
          copy += mark;
        });
  };
  const auto length = [&read](const std::string& text) {
    ++read;
    return text.size();
  };
  const List said = {"abc", "de"};
  List first = said, second = said;
  exchange(first, 0);
  exchange(second, 0);
  EXPECT_EQ(made, 1);
  EXPECT_EQ(said[0], "abc");
  EXPECT_EQ(first[0], "abc!");
  EXPECT_EQ(&first[0], &second[0]);
  EXPECT_EQ(&first[1], &said[1]);
  EXPECT_EQ(*first.Derived<size_t>(0, &kLength, length), 4u);
  EXPECT_EQ(*second.Derived<size_t>(0, &kLength, length), 4u);
  EXPECT_EQ(read, 1);

  second.Mutable(0) += "?";  // what others have too stays as it is
  EXPECT_EQ(first[0], "abc!");
  List alone = {"f"};
  exchange(alone, 0);
  alone.Mutable(0) += "?";
  EXPECT_EQ(made, 2);

  mark = "!!";  // another change than the one that was made
  List third = said;
  exchange(third, 0);
  EXPECT_EQ(made, 3);
  EXPECT_EQ(third[0], "abc!!");
  EXPECT_EQ(first[0], "abc!");
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

TEST(SharedList, WhatIsSettledIsOneThingForCopiesThatGoOn) {
  static constexpr char kAll = 0, kLength = 0;
  List first = {"a", "b"};
  EXPECT_EQ(*first.Derived<size_t>(1, &kLength, [](const std::string& text) { return text.size(); }), 1u);
  EXPECT_EQ(first.settled(), 0u);
  EXPECT_EQ(first.OfSettled<std::string>(&kAll), nullptr);
  first.Settle(2);
  EXPECT_EQ(first.settled(), 2u);
  first.KeepOfSettled<std::string>(&kAll, std::make_shared<const std::string>("ab"));
  List second = first;
  second.push_back("c");
  second.Mutable(2) += "!";
  second.resize(4);
  EXPECT_EQ(second.size(), 4u);
  EXPECT_EQ(second.settled(), 2u) << "what comes behind it may change";
  EXPECT_EQ(&first[1], &second[1]);
  EXPECT_EQ(second[2], "c!");
  EXPECT_EQ(*second.OfSettled<std::string>(&kAll), "ab");
  EXPECT_EQ(*second.Derived<size_t>(1, &kLength, [](const std::string&) { return size_t{7}; }), 1u);
  const List part = second.SettledPart();
  EXPECT_EQ(part.size(), 2u);
  EXPECT_EQ(*part.OfSettled<std::string>(&kAll), "ab");
  second.Settle(4);
  EXPECT_EQ(second.settled(), 4u);
  EXPECT_EQ(second.OfSettled<std::string>(&kAll), nullptr) << "of others";
  EXPECT_EQ(second[0] + second[1] + second[2] + second[3], "abc!");
}

TEST(SharedList, WhatWasMadeOfFewerIsThereForWhatIsMadeOfMore) {
  static constexpr char kAll = 0, kOther = 0;
  using Taken = std::pair<std::shared_ptr<const std::string>, size_t>;
  List list = {"a", "b", "c", "d", "e"};
  EXPECT_EQ(list.TakeOfEarlier<std::string>(&kAll).first, nullptr);
  list.Settle(2);
  EXPECT_EQ(list.TakeOfEarlier<std::string>(&kAll).first, nullptr) << "none were settled before";
  const auto ab = std::make_shared<const std::string>("ab");
  list.KeepOfSettled<std::string>(&kAll, ab);
  const List before = list;
  list.Settle(4);
  const List copy = list;
  EXPECT_EQ(copy.TakeOfEarlier<std::string>(&kOther).first, nullptr);
  EXPECT_EQ(copy.TakeOfEarlier<std::string>(&kAll), Taken(ab, 2));
  EXPECT_EQ(list.TakeOfEarlier<std::string>(&kAll).first, nullptr) << "it is given once";
  EXPECT_EQ(before.OfSettled<std::string>(&kAll), ab) << "and stays with what it was made of";
  EXPECT_EQ(ab.use_count(), 2) << "which alone holds it";
  list.Settle(5);
  EXPECT_EQ(list.TakeOfEarlier<std::string>(&kAll).first, nullptr) << "nothing was made of the four";

  EXPECT_TRUE(list.ContinuesSettled(before));
  EXPECT_TRUE(list.ContinuesSettled(List()));
  EXPECT_FALSE(before.ContinuesSettled(list));
  List other = {"a", "b"};
  other.Settle(2);
  EXPECT_FALSE(list.ContinuesSettled(other)) << "equal, but not the same";
}

TEST(SharedList, TakesABeginningForAsManyOfItsOwn) {
  List list = {"a", "b", "c", "d"}, beginning = {"A", "B"};
  list.Settle(3);
  beginning.Settle(2);
  const List before = list;
  list.TakeSettled(beginning);
  EXPECT_EQ(list.settled(), 2u);
  EXPECT_EQ(list[0] + list[1] + list[2] + list[3], "ABcd");
  list.Mutable(2) += "!";
  EXPECT_EQ(before[0] + before[2], "ac");
  std::vector<std::shared_ptr<const void>> parts = list.Parts();
  EXPECT_EQ(parts.size(), 4u);
  const std::string* const last = &list[3];
  list.clear();
  EXPECT_EQ(*last, "d") << "who holds its parts holds it";
}

TEST(SharedList, AChangeOfWhatIsSettledIsTheLists) {
  static constexpr char kAll = 0, kLouder = 0;
  const auto is_louder = [](const std::string& copy) { return copy.ends_with("!"); };
  const auto louder = [](std::string& copy) { copy += "!"; };
  List first = {"a", "b", "c"};
  first.Settle(2);
  EXPECT_EQ(first.settled(), 2u);
  EXPECT_EQ(first[2], "c");
  first.Settle(3);
  first.KeepOfSettled<std::string>(&kAll, std::make_shared<const std::string>("abc"));
  List changed = first, shorter = first, exchanged = first, taken = first;
  changed.Mutable(1) = "B";
  shorter.resize(2);
  exchanged.Exchange(0, &kLouder, is_louder, louder);
  for (const List* list : {&changed, &shorter, &exchanged}) {
    EXPECT_EQ(list->settled(), 0u);
    EXPECT_EQ(list->OfSettled<std::string>(&kAll), nullptr);
  }
  EXPECT_EQ(changed[0] + changed[1] + changed[2], "aBc");
  EXPECT_EQ(shorter[0] + shorter[1], "ab");
  EXPECT_EQ(exchanged[0] + exchanged[1], "a!b");
  EXPECT_EQ(first[0] + first[1] + first[2], "abc");
  EXPECT_EQ(first.settled(), 3u);
  exchanged.Settle(3);
  taken.push_back("d");
  taken.TakeSettled(exchanged);
  EXPECT_EQ(taken[0] + taken[1] + taken[3], "a!bd");
  EXPECT_EQ(&taken[0], &exchanged[0]);
  changed.clear();
  EXPECT_TRUE(changed.empty());
}

}  // namespace
}  // namespace ingot::text
