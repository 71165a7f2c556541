// The local registry's own: time, sessions and its files. Its contract is in contract_test.cc.
#include "registry/local_registry.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/file.h"
#include "base/jumping_clock.h"
#include "base/waits.h"
#include "events.h"

namespace {
std::atomic<int> synced_files = 0;
}  // namespace

// In place of the C library's, for this program: it counts the files of the registry that are made durable.
extern "C" int fsync(int fd) {
  ++synced_files;
  return ::fdatasync(fd);
}

namespace ingot::registry {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class LocalRegistryTest : public ::testing::Test {
 protected:
  LocalRegistryTest() {
    std::string pattern = std::filesystem::temp_directory_path().string() + "/ingot-registry-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    options_.folder = folder_ + "/registry";
  }
  ~LocalRegistryTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Registry> Open(const base::Clock& clock = base::Clock::Real()) {
    auto opened = OpenLocalRegistry(options_, clock);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? *std::move(opened) : nullptr;
  }
  size_t Sessions() const {
    size_t count = 0;
    for (const auto& file : std::filesystem::directory_iterator(options_.folder + "/sessions")) count += file.exists();
    return count;
  }

  std::string folder_;
  LocalOptions options_;
};

TEST_F(LocalRegistryTest, AWallClockThatIsSetEndsNoLease) {
  base::ManualClock steady(seconds(1));
  base::testing::JumpingClock clock(steady);
  const auto holder = Open(clock), other = Open(clock);
  const auto lease = holder->Grant(seconds(30), nullptr).value();
  ASSERT_TRUE(holder->Put("role", "here", {.lease = lease->id()})->written);
  for (const auto jump : {std::chrono::hours(24), -std::chrono::hours(24)}) {
    clock.SetWall(jump);
    EXPECT_TRUE(lease->alive());
    EXPECT_TRUE(other->Get("role")->has_value());
  }
}

TEST_F(LocalRegistryTest, ALeaseEndsByTheClockWhenItsHolderIsPaused) {
  // The holder's clock stands still, as it does for a paused process.
  base::ManualClock holders(seconds(1)), others(seconds(1));
  const auto holder = Open(holders), other = Open(others);
  const auto lease = *holder->Grant(seconds(6), nullptr);
  ASSERT_TRUE(holder->Put("a", "1", {.lease = lease->id()}).ok());
  others.Advance(milliseconds(5999));
  EXPECT_TRUE((*other->Get("a")).has_value());
  others.Advance(milliseconds(1));
  EXPECT_FALSE((*other->Get("a")).has_value());
  EXPECT_TRUE(absl::IsNotFound(holder->Put("a", "2", {.lease = lease->id()}).status()));
}

TEST_F(LocalRegistryTest, AWatcherReportsTheEndOfALeaseThoughNobodyWrites) {
  base::ManualClock holders(seconds(1)), others(seconds(1));
  const auto holder = Open(holders), other = Open(others);
  const auto lease = *holder->Grant(seconds(6), nullptr);
  ASSERT_TRUE(holder->Put("a", "1", {.lease = lease->id()}).ok());
  testing::Events events;
  const auto watcher = other->Watch("a", events.observer());
  ASSERT_TRUE(events.AwaitCount(1));
  others.AwaitWaiters(1);
  others.Advance(seconds(6));
  ASSERT_TRUE(events.AwaitCount(2));
  EXPECT_EQ(testing::Show(events.all()[1]), "-a");
}

TEST_F(LocalRegistryTest, AWatchThatFailsAgainAndAgainIsToldOnce) {
  std::ostringstream text;
  const auto before = spdlog::default_logger();
  const auto logger = std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text));
  logger->set_pattern("%v");
  spdlog::set_default_logger(logger);
  {
    base::ManualClock clock(seconds(1));
    const auto registry = Open(clock);
    testing::Events events;
    const auto watcher = registry->Watch("roles/", events.observer());
    const std::string table = options_.folder + "/table";
    std::filesystem::remove(table);
    std::filesystem::create_directory(table);  // it cannot be read
    const auto failing = [] {
      return !base::Waits::OfProcess().Longer(milliseconds(0), base::WaitKind::kFault).empty();
    };
    for (int look = 0; look < 250; ++look) {  // 50 s: a reminder is not due yet
      clock.AwaitWaiters(1);
      clock.Advance(options_.poll);
    }
    const auto end = std::chrono::steady_clock::now() + seconds(20);
    while (!failing() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    EXPECT_TRUE(failing());
  }
  spdlog::set_default_logger(before);
  const std::string reported = text.str();
  EXPECT_EQ(reported.find("the watch of roles/ waits: "), reported.rfind("the watch of roles/")) << reported;
  EXPECT_NE(reported.find("the watch of roles/ waits: "), std::string::npos) << reported;
}

TEST_F(LocalRegistryTest, RemovesTheSessionsOfRegistriesThatAreGone) {
  const auto first = Open();
  Open();
  EXPECT_EQ(Sessions(), 1);
  std::ofstream(options_.folder + "/sessions/left-by-a-crash") << "";
  const auto second = Open();
  EXPECT_EQ(Sessions(), 2);
}

TEST_F(LocalRegistryTest, ALostTableBeginsAtAGreaterRevision) {
  const auto registry = Open();
  const int64_t before = registry->Put("a", "1", {})->entry.create_revision;
  std::ofstream(options_.folder + "/table", std::ios::trunc) << "\xff no table";
  EXPECT_FALSE((*registry->Get("a")).has_value());
  EXPECT_GT(registry->Put("a", "1", {})->entry.create_revision, before);
}

TEST_F(LocalRegistryTest, AnEmptyTableIsALostOne) {
  const auto registry = Open();
  const int64_t before = registry->Put("a", "1", {})->entry.create_revision;
  std::filesystem::resize_file(options_.folder + "/table", 0);
  EXPECT_FALSE((*registry->Get("a")).has_value());
  EXPECT_GT(registry->Put("a", "1", {})->entry.create_revision, before);
}

TEST_F(LocalRegistryTest, ANewRevisionIsOnDiskAndARenewalNeedNotBe) {
  base::ManualClock clock(seconds(1));
  const auto registry = Open(clock);
  const auto lease = *registry->Grant(seconds(6), nullptr);
  int before = synced_files;
  ASSERT_TRUE(registry->Put("a", "1", {.lease = lease->id()}).ok());
  EXPECT_EQ(synced_files, before + 2) << "the table and its folder";
  before = synced_files;
  ASSERT_TRUE(registry->Put("a", "2", {.expected_revision = 1}).ok());
  EXPECT_EQ(synced_files, before) << "nothing changed";
  const std::string table = options_.folder + "/table", old = *base::ReadFile(table);
  clock.AwaitWaiters(1);
  clock.Advance(seconds(3));
  const auto end = std::chrono::steady_clock::now() + seconds(30);
  while (*base::ReadFile(table) == old && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_NE(*base::ReadFile(table), old) << "it is renewed";
  EXPECT_EQ(synced_files, before) << "a renewal";
}

TEST_F(LocalRegistryTest, SaysWhenAnotherProcessHoldsTheTable) {
  options_.deadline = milliseconds(50);
  const auto registry = Open();
  const int fd = ::open((options_.folder + "/lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  const absl::Status rejected = registry->Put("a", "1", {}).status();
  EXPECT_TRUE(absl::IsUnavailable(rejected)) << rejected;
  EXPECT_NE(rejected.message().find(options_.folder + "/lock"), std::string::npos) << rejected;
  ::close(fd);
  EXPECT_TRUE(registry->Put("a", "1", {}).ok());
}

TEST_F(LocalRegistryTest, SaysThatItsFolderCannotBeMade) {
  options_.folder = folder_ + "/none/registry";
  const absl::Status rejected = OpenLocalRegistry(options_).status();
  EXPECT_TRUE(absl::IsUnavailable(rejected)) << rejected;
  EXPECT_NE(rejected.message().find(options_.folder), std::string::npos) << rejected;
}

}  // namespace
}  // namespace ingot::registry
