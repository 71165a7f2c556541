#include "dataset/task_filter.h"

#include <gtest/gtest.h>

namespace ingot::dataset {
namespace {

TEST(TaskFilterTest, FormatsThatInviteGuessingAreNamed) {
  EXPECT_EQ(GuessableFormat("Which?\nA) one\nB) two", "A"), "multiple choice");
  EXPECT_EQ(GuessableFormat("Pick (A) one (B) two (C) three", "two"), "multiple choice");
  EXPECT_EQ(GuessableFormat("Is 7 prime?", "Yes"), "true or false");
  EXPECT_EQ(GuessableFormat("True or false: 7 is prime.", "x"), "true or false");
  EXPECT_EQ(GuessableFormat("Prove that there are infinitely many primes.", ""), "proof");
  EXPECT_EQ(GuessableFormat("Approve the plan. Prove that x > 0.", ""), "proof");
  EXPECT_EQ(GuessableFormat("What is 2 + 3?", "5"), std::nullopt);
  EXPECT_EQ(GuessableFormat("How do you improve it?", "12"), std::nullopt);
  EXPECT_EQ(GuessableFormat("Class A. has 3 pupils.", "3"), std::nullopt);
}

TEST(TaskFilterTest, RatesAndGuessesDecide) {
  const auto task = *base::ParseJson(R"({"question": "2 + 3", "answer": 5})");
  const TaskTries always{10, 10}, never{10, 0}, often{10, 7}, guessed{8, 1}, missed{8, 0};
  EXPECT_EQ(ReasonToDrop(task, &always, nullptr, {}), "trivial");
  EXPECT_EQ(ReasonToDrop(task, &never, nullptr, {}), "impossible");
  EXPECT_EQ(ReasonToDrop(task, &often, nullptr, {}), std::nullopt);
  EXPECT_EQ(ReasonToDrop(task, &often, &guessed, {}), "guessable");
  EXPECT_EQ(ReasonToDrop(task, &often, &missed, {}), std::nullopt);
  EXPECT_EQ(ReasonToDrop(task, nullptr, nullptr, {}), std::nullopt);
  EXPECT_EQ(ReasonToDrop(task, &always, nullptr, {.max_rate = 1.5}), std::nullopt);
}

// 10 submissions, 50 cases. `wrong` of them answer every case wrongly, each in its own way.
std::vector<std::vector<std::optional<std::string>>> Outputs(int wrong, int unstable_cases) {
  std::vector<std::vector<std::optional<std::string>>> outputs(10);
  for (int s = 0; s < 10; ++s) {
    for (int c = 0; c < 50; ++c) {
      const bool odd = s < wrong || (c < unstable_cases && s % 2 == 0);
      outputs[s].push_back(odd ? "odd" + std::to_string(s) : "right" + std::to_string(c));
    }
  }
  return outputs;
}

TEST(CaseFilterTest, ACaseIsKeptWhereSevenOfTenAgree) {
  const FilteredCases all = FilterCases(Outputs(0, 0), {});
  EXPECT_EQ(all.kept.size(), 50);
  EXPECT_EQ(all.kept[3].output, "right3");
  EXPECT_EQ(all.passing, 10);
  EXPECT_EQ(all.dropped, "");
  const FilteredCases some = FilterCases(Outputs(0, 10), {});  // 10 cases where 5 of 10 agree
  EXPECT_EQ(some.kept.size(), 40);
  EXPECT_EQ(some.dropped, "");
}

TEST(CaseFilterTest, AProblemIsDroppedBelowFortyCasesOrNineSubmissions) {
  EXPECT_EQ(FilterCases(Outputs(0, 11), {}).dropped, "39 of 50 cases kept, fewer than 40");
  EXPECT_EQ(FilterCases(Outputs(1, 0), {}).dropped, "");
  EXPECT_EQ(FilterCases(Outputs(2, 0), {}).dropped, "8 of 10 submissions pass, fewer than 9");
  EXPECT_EQ(FilterCases(Outputs(4, 0), {}).kept.size(), 0);
  EXPECT_FALSE(FilterCases({}, {}).dropped.empty());
}

}  // namespace
}  // namespace ingot::dataset
