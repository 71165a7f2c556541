#include "weights/stores/object_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "weights/make_snapshot.h"
#include "weights/stores/faulty_store.h"
#include "weights/stores/object_stores.h"

namespace ingot::weights {
namespace {

using ::testing::ElementsAre;
using testing::FaultyStore;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StoreOfTest;
using testing::TempFolder;

constexpr int64_t kAny = int64_t{1} << 40;

// The contract, over every implementation.
class ObjectStoreTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!stores_.missing().empty()) GTEST_SKIP() << stores_.missing();
  }
  StoreOfTest stores_{GetParam()};
  const std::shared_ptr<ObjectStore> store_ = stores_.Open();
};
INSTANTIATE_TEST_SUITE_P(Stores, ObjectStoreTest, ::testing::ValuesIn(testing::kStores),
                         [](const auto& kind) { return kind.param; });

TEST_P(ObjectStoreTest, ReturnsWhatWasPut) {
  std::mt19937_64 rng(1);
  // Larger than a part of S3's uploads, so that it goes and comes in parts.
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100000}, size_t{17} << 20}) {
    const std::string bytes = testing::RandomBytes(rng, size);
    ASSERT_EQ(store_->Put("run/object", bytes), absl::OkStatus());
    const auto read = store_->Get("run/object", kAny);
    ASSERT_EQ(read.status(), absl::OkStatus());
    EXPECT_TRUE(read->bytes == bytes) << size;
    EXPECT_FALSE(read->tag.empty());
  }
}

TEST_P(ObjectStoreTest, ReportsAMissingObjectAndATooLargeOne) {
  EXPECT_TRUE(absl::IsNotFound(store_->Get("run/none", kAny).status()));
  ASSERT_TRUE(store_->Put("run/object", "12345").ok());
  EXPECT_TRUE(store_->Get("run/object", 5).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(store_->Get("run/object", 4).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->Put("../object", "x")));
}

TEST_P(ObjectStoreTest, SwapsOnlyWhatItKnows) {
  const auto first = store_->Swap("run/live", "1", "");
  ASSERT_EQ(first.status(), absl::OkStatus());
  EXPECT_TRUE(absl::IsAborted(store_->Swap("run/live", "other", "").status()));
  EXPECT_EQ(store_->Get("run/live", kAny)->tag, *first);
  const auto second = store_->Swap("run/live", "2", *first);
  ASSERT_EQ(second.status(), absl::OkStatus());
  EXPECT_TRUE(absl::IsAborted(store_->Swap("run/live", "late", *first).status()));
  EXPECT_EQ(store_->Get("run/live", kAny)->bytes, "2");
}

TEST_P(ObjectStoreTest, LetsOneOfManySwapsSucceed) {
  const std::string tag = *store_->Swap("run/live", "0", "");
  std::atomic<int> done = 0, rejected = 0;
  std::vector<std::thread> threads;
  for (int i = 1; i <= 6; ++i) {
    threads.emplace_back([&, i] {
      const auto swapped = store_->Swap("run/live", std::to_string(i), tag);
      (swapped.ok() ? done : rejected) += swapped.ok() || absl::IsAborted(swapped.status());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, 1);
  EXPECT_EQ(rejected, 5);
}

TEST_P(ObjectStoreTest, ListsByPrefixAndDeletes) {
  for (const char* key : {"run/versions/2/manifest", "run/versions/10/shard-0", "run/acks/e", "run2/versions/1/x"}) {
    ASSERT_TRUE(store_->Put(key, key).ok());
  }
  EXPECT_THAT(*store_->List("run/versions/"), ElementsAre("run/versions/10/shard-0", "run/versions/2/manifest"));
  EXPECT_THAT(*store_->List("none/"), IsEmpty());
  EXPECT_TRUE(store_->Delete("run/versions/2/manifest").ok());
  EXPECT_TRUE(store_->Delete("run/versions/2/manifest").ok());
  EXPECT_THAT(*store_->List("run/versions/"), ElementsAre("run/versions/10/shard-0"));
}

TEST_P(ObjectStoreTest, NeverShowsHalfOfAnObject) {
  const std::string a(300000, 'a'), b(200000, 'b');
  ASSERT_TRUE(store_->Put("run/object", a).ok());
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(store_->Put("run/object", i % 2 == 0 ? b : a).ok());
    stop = true;
  });
  while (!stop) {
    const auto read = store_->Get("run/object", kAny);
    ASSERT_EQ(read.status(), absl::OkStatus());
    EXPECT_TRUE(read->bytes == a || read->bytes == b);
  }
  writer.join();
}

TEST_P(ObjectStoreTest, IsCheckedByUsingIt) {
  EXPECT_EQ(CheckStore(*store_, "run"), absl::OkStatus());
  EXPECT_THAT(*store_->List("run/"), IsEmpty());
}

TEST(CheckStoreTest, AStoreWithoutConditionalWritesIsRejected) {
  const TempFolder folder;
  FaultyStore store(std::shared_ptr<ObjectStore>(OpenDirectoryStore(folder.path() + "/store").value()));
  EXPECT_EQ(CheckStore(store, "run"), absl::OkStatus());
  store.ignores_existing = true;
  const absl::Status existing = CheckStore(store, "run");
  EXPECT_TRUE(absl::IsFailedPrecondition(existing)) << existing;
  EXPECT_THAT(std::string(existing.message()), HasSubstr("it ignores If-None-Match"));
  store.ignores_existing = false;
  store.ignores_tags = true;
  const absl::Status tags = CheckStore(store, "run");
  EXPECT_TRUE(absl::IsFailedPrecondition(tags)) << tags;
  EXPECT_THAT(std::string(tags.message()), HasSubstr("it ignores If-Match"));
  EXPECT_THAT(*store.List("run/"), IsEmpty());
}

TEST(DirectoryStoreTest, LeavesNoFileOfAWriteThatFailed) {
  const TempFolder folder;
  const auto store = OpenDirectoryStore(folder.path() + "/store");
  std::filesystem::create_directories(folder.path() + "/store/a/b/c");
  EXPECT_FALSE((*store)->Put("a/b", "x").ok());  // a folder is in the way
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() + "/store/.writing"));
}

TEST(DirectoryStoreTest, ASwapDoesNotWaitForeverForOneThatIsPaused) {
  const TempFolder folder;
  const auto store = OpenDirectoryStore(folder.path(), std::chrono::milliseconds(20)).value();
  const int paused = open((folder.path() + "/.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  ASSERT_EQ(flock(paused, LOCK_EX), 0);
  const absl::Status late = store->Swap("a", "1", "").status();
  EXPECT_TRUE(absl::IsUnavailable(late)) << late;
  EXPECT_THAT(std::string(late.message()), HasSubstr(folder.path() + "/.lock has not released it for 20 ms"));
  close(paused);
  EXPECT_TRUE(store->Swap("a", "1", "").ok());
}

TEST(DirectoryStoreTest, RemovesFoldersThatAreEmpty) {
  const TempFolder folder;
  const auto store = OpenDirectoryStore(folder.path());
  ASSERT_TRUE((*store)->Put("a/b/c", "x").ok());
  ASSERT_TRUE((*store)->Put("a/d", "x").ok());
  ASSERT_TRUE((*store)->Delete("a/b/c").ok());
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/a/b"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/a/d"));
}

TEST(DirectoryStoreTest, NamesThePathThatItCannotUse) {
  const TempFolder folder;
  std::ofstream(folder.path() + "/file") << "x";
  const auto store = OpenDirectoryStore(folder.path() + "/file/below");
  EXPECT_THAT(std::string(store.status().message()), HasSubstr(folder.path() + "/file/below"));
}

TEST(ObjectKeyTest, IsPlainWordsBetweenSlashes) {
  EXPECT_TRUE(IsObjectKey("run-1/versions/0000000001-0a/delta/shard-0"));
  for (const char* key : {"", "/a", "a/", "a//b", "..", "a/../b", ".lock", "a b", "a?b", "a%2f"}) {
    EXPECT_FALSE(IsObjectKey(key)) << key;
  }
}

}  // namespace
}  // namespace ingot::weights
