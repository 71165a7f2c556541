// A pool that is open for reading alone, beside the process that writes it and on a copy that nobody may write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "datapool/make_pool.h"

namespace ingot::datapool {
namespace {

namespace fs = std::filesystem;
using testing::Append;
using testing::BatchRecord;
using testing::End;
using ::testing::HasSubstr;
using testing::Open;
using testing::Prompt;
using testing::Sampled;

StoreOptions Reading(const std::string& path, int shards) {
  StoreOptions options = testing::QuickOptions(path);
  options.shards = shards;
  options.read_only = true;
  return options;
}
std::unique_ptr<Client> Writer(const std::string& path, int shards) {
  StoreOptions options = testing::QuickOptions(path);
  options.shards = shards;
  return OpenPool(options).value();
}

// Group `i`: an episode with a call, its end, and a journal record.
void WriteGroup(Client& pool, int i, int tokens = 3) {
  const std::string id = "e" + std::to_string(i);
  std::vector<int32_t> ids(static_cast<size_t>(tokens), i);
  for (size_t k = 0; k < ids.size(); ++k) ids[k] = static_cast<int32_t>((k * 7919 + static_cast<size_t>(i)) % 100003);
  ASSERT_TRUE(pool.StoreEpisode(Open(id, i, 0)).ok());
  ASSERT_TRUE(pool.AppendCall(Append(id, 0, {Prompt(ids)}, {Sampled({4, 5})})).ok());
  ASSERT_TRUE(pool.StoreEnd(End(id)).ok());
  ASSERT_EQ(pool.AppendJournal(BatchRecord(i, {i})).value(), i);
}

// The number of groups in the journal, of which every episode is there as a whole; -1 = a part is missing.
int64_t WholeGroups(Client& pool) {
  v1::ReadJournalRequest request;
  const v1::ReadJournalResponse journal = pool.ReadJournal(request).value();
  if (journal.end_index() != journal.records_size()) return -1;
  for (int64_t i = 0; i < journal.records_size(); ++i) {
    const auto tree = testing::Get(pool, "e" + std::to_string(i));
    EXPECT_TRUE(tree.ok()) << tree.status();
    if (!tree.ok() || tree->calls_size() != 1 || tree->segments_size() != 2) return -1;
    if (tree->episode().state() != v1::EPISODE_FINISHED) return -1;
  }
  return journal.records_size();
}

std::map<std::string, uintmax_t> FilesOf(const std::string& folder) {
  std::map<std::string, uintmax_t> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    files[entry.path().string()] = entry.is_regular_file() ? entry.file_size() : 0;
  }
  return files;
}

TEST(ReadOnlyPool, ShowsAPoolThatAnotherHoldsAndChangesNothing) {
  for (const int shards : {1, 3}) {
    const testing::TempDir dir;
    const auto writer = Writer(dir.path(), shards);
    for (int i = 0; i < 5; ++i) WriteGroup(*writer, i);
    const auto before = FilesOf(dir.path());
    const auto opened = OpenPool(Reading(dir.path(), shards));
    ASSERT_TRUE(opened.ok()) << opened.status();
    Client& reader = **opened;
    EXPECT_EQ(WholeGroups(reader), 5);
    EXPECT_EQ(reader.Status()->episodes(), 5);
    EXPECT_EQ(testing::GetGroup(reader, 2)->episodes_size(), 1);
    for (const absl::Status& rejected :
         {reader.StoreEpisode(Open("new", 9, 0)), reader.StoreEnd(End("e0", v1::EPISODE_FAILED)),
          reader.AppendJournal(BatchRecord(9, {9})).status()}) {
      EXPECT_EQ(rejected.code(), absl::StatusCode::kFailedPrecondition) << rejected;
      EXPECT_THAT(std::string(rejected.message()), HasSubstr("open read-only"));
    }
    EXPECT_EQ(FilesOf(dir.path()), before);
    WriteGroup(*writer, 5);
    EXPECT_EQ(WholeGroups(reader), 5) << "the moment of its opening";
    EXPECT_EQ(WholeGroups(*OpenPool(Reading(dir.path(), shards)).value()), 6);
  }
}

// The writer moves its log to tables, merges tables and deletes files all the time.
TEST(ReadOnlyPool, SeesAWholePoolAtEachMomentOfItsWriter) {
  const testing::TempDir dir;
  const auto writer = Writer(dir.path(), 2);
  std::atomic<int> written{0};
  std::jthread writing([&](const std::stop_token& end) {
    for (int i = 0; !end.stop_requested() && i < 400; ++i) {
      WriteGroup(*writer, i, 20000);
      written = i + 1;
    }
  });
  for (int round = 0; round < 25; ++round) {
    const int acknowledged = written;
    const auto reader = OpenPool(Reading(dir.path(), 2));
    ASSERT_TRUE(reader.ok()) << reader.status();
    // Shards are opened one after the other: the journal, in the first, has groups whose trees were there before.
    EXPECT_GE(WholeGroups(**reader), acknowledged) << "round " << round;
  }
  writing.request_stop();
  writing.join();
  EXPECT_EQ(WholeGroups(*OpenPool(Reading(dir.path(), 2)).value()), written);
}

constexpr char kCopy[] = "INGOT_TEST_COPY";

// Runs in a process of its own, as another user.
TEST(ReadOnlyPool, DISABLED_ReadsTheCopy) {
  const std::string path = std::getenv(kCopy);
  ASSERT_NE(::access(path.c_str(), W_OK), 0) << "this user may write the copy";
  const auto reader = OpenPool(Reading(path, 2));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(WholeGroups(**reader), 3);
}

TEST(ReadOnlyPool, OpensACopyThatSomebodyElseMayOnlyRead) {
  const testing::TempDir dir;
  {
    const auto writer = Writer(dir.path() + "/pool", 2);
    for (int i = 0; i < 3; ++i) WriteGroup(*writer, i);
  }
  const auto allow = [&](fs::perms folders, fs::perms files) {
    fs::permissions(dir.path(), folders);
    for (const auto& entry : fs::recursive_directory_iterator(dir.path())) {
      fs::permissions(entry.path(), entry.is_directory() ? folders : files);
    }
  };
  allow(static_cast<fs::perms>(0555), static_cast<fs::perms>(0444));
  const auto before = FilesOf(dir.path());
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv(kCopy, (dir.path() + "/pool").c_str(), 1);
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(3);
    ::execl("/proc/self/exe", "datapool_test", "--gtest_filter=ReadOnlyPool.DISABLED_ReadsTheCopy",
            "--gtest_also_run_disabled_tests", nullptr);
    ::_exit(4);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(FilesOf(dir.path()), before);
  allow(fs::perms::owner_all, fs::perms::owner_read);
}

TEST(ReadOnlyPool, NamesWhatIsNotThere) {
  const testing::TempDir dir;
  const auto none = OpenPool(Reading(dir.path() + "/absent", 1));
  EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound) << none.status();
  EXPECT_FALSE(fs::exists(dir.path() + "/absent"));
  {
    const auto writer = Writer(dir.path() + "/pool", 2);
  }
  EXPECT_EQ(OpenPool(Reading(dir.path() + "/pool", 1)).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(OpenPool(Reading(dir.path() + "/pool", 3)).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace ingot::datapool
