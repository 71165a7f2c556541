// The journal of a run, and of another run in its place.
#include "view/runs/journal.h"

#include <gtest/gtest.h>

#include "datapool/make_pool.h"

namespace ingot::view::journal_test {
namespace {

namespace pools = datapool::testing;

// A pool whose journal admits groups [0, groups) of tasks NAME-0, NAME-1, ...
std::unique_ptr<datapool::Client> PoolWith(const std::string& path, const std::string& name, int groups) {
  auto pool = datapool::OpenPool(pools::QuickOptions(path)).value();
  for (int group = 0; group < groups; ++group) {
    v1::AppendJournalRequest request;
    v1::GroupAdmitted& admitted = *request.add_records()->mutable_admitted();
    admitted.set_group_id(group);
    admitted.mutable_task()->set_task_id(name + "-" + std::to_string(group));
    EXPECT_TRUE(pool->AppendJournal(request).ok());
  }
  return pool;
}

TEST(Journal, IsReadFromItsPlaceOn) {
  pools::TempDir dir;
  const auto pool = PoolWith(dir.path(), "a", 2);
  Journal journal;
  for (int64_t groups = 2; groups < 5; ++groups) {
    ASSERT_TRUE(journal.Refresh(*pool).ok());
    EXPECT_EQ(journal.next_group(), groups);
    v1::AppendJournalRequest request;
    request.add_records()->mutable_admitted()->set_group_id(groups);
    ASSERT_TRUE(pool->AppendJournal(request).ok());
  }
  EXPECT_EQ(journal.generation(), 0);
}

TEST(Journal, OfAnotherRunIsNotMixedWithTheFirst) {
  pools::TempDir first, other;
  const auto pool = PoolWith(first.path(), "a", 3);
  for (const int groups : {2, 3, 5}) {  // shorter, as long, longer
    Journal journal;
    ASSERT_TRUE(journal.Refresh(*pool).ok());
    const double started = journal.started_s();
    const auto replaced = PoolWith(other.path() + "/" + std::to_string(groups), "b", groups);
    ASSERT_TRUE(journal.Refresh(*replaced).ok());
    EXPECT_EQ(journal.generation(), 1);
    EXPECT_GT(journal.started_s(), started);
    EXPECT_EQ(journal.FromHead().size(), static_cast<size_t>(groups));
    for (const JournalGroup& group : journal.FromHead()) {
      EXPECT_EQ(group.task_id, "b-" + std::to_string(group.group_id)) << groups;
    }
  }
}

TEST(Journal, OfAnEmptyPoolHasNothingOfTheRunBefore) {
  pools::TempDir first, other;
  const auto pool = PoolWith(first.path(), "a", 3), empty = PoolWith(other.path(), "b", 0);
  Journal journal;
  ASSERT_TRUE(journal.Refresh(*pool).ok());
  ASSERT_TRUE(journal.Refresh(*empty).ok());
  EXPECT_EQ(journal.next_group(), 0);
  EXPECT_EQ(journal.started_s(), 0);
}

}  // namespace
}  // namespace ingot::view::journal_test
