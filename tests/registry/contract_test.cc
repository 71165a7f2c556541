// The promises of registry.h, held by both registries. With --hold this program is another process of the run, which
// leads until it is told to go on (Holder).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <iostream>
#include <memory>
#include <thread>

#include "base/random.h"
#include "etcd_cluster.h"
#include "events.h"
#include "registry/grpc_etcd.h"
#include "registry/local_registry.h"
#include "registry/registry.h"

namespace ingot::registry {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using testing::Events;
using testing::HasEtcd;

// `place` is a folder or an endpoint.
absl::StatusOr<std::unique_ptr<Registry>> OpenAt(const std::string& kind, const std::string& place) {
  if (kind == "local") {
    LocalOptions options;
    options.folder = place;
    options.poll = milliseconds(20);
    return OpenLocalRegistry(options);
  }
  EtcdOptions options;
  options.endpoints = {place};
  return ConnectEtcd(options);
}

// One server for all tests of this program, each of which has keys of its own.
testing::EtcdCluster& SharedEtcd() {
  static testing::EtcdCluster cluster(1);
  static const bool ready = cluster.AwaitReady();
  EXPECT_TRUE(ready);
  return cluster;
}

// Another process that leads `key`, until it ends.
class Holder {
 public:
  Holder(const std::string& kind, const std::string& place, const std::string& key) {
    int down[2], up[2];
    EXPECT_EQ(::pipe(down), 0);
    EXPECT_EQ(::pipe(up), 0);
    child_ = ::fork();
    if (child_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(down[0], 0);
      ::dup2(up[1], 1);
      for (const int fd : {down[0], down[1], up[0], up[1]}) ::close(fd);
      ::execl("/proc/self/exe", "holder", "--hold", kind.c_str(), place.c_str(), key.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(down[0]);
    ::close(up[1]);
    to_ = down[1];
    from_ = ::fdopen(up[0], "r");
  }
  ~Holder() {
    ::kill(child_, SIGKILL);
    ::close(to_);
    std::fclose(from_);
    if (child_ > 0) ::waitpid(child_, nullptr, 0);
  }
  void Signal(int signal) { ::kill(child_, signal); }
  void GoOn() { EXPECT_EQ(::write(to_, "\n", 1), 1); }
  std::string Line() {
    char line[256] = "";
    if (std::fgets(line, sizeof(line), from_) == nullptr) return "(it ended)";
    line[std::strcspn(line, "\n")] = '\0';
    return line;
  }

 private:
  pid_t child_ = -1;
  int to_ = -1;
  FILE* from_ = nullptr;
};

// The other process: prints its fencing token; at each line of input, whether its lease is alive, and the answer to a
// fenced write.
int Hold(const std::string& kind, const std::string& place, const std::string& key) {
  const auto registry = OpenAt(kind, place);
  if (!registry.ok()) return 2;
  const auto lease = (*registry)->Grant(seconds(2), nullptr);
  if (!lease.ok()) return 3;
  const auto led = (*registry)->Put(key, "holder", {.lease = (*lease)->id(), .expected_revision = 0});
  if (!led.ok() || !led->written) return 4;
  const int64_t token = led->entry.create_revision;
  std::cout << token << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const auto put = (*registry)->Put(key + "/work", "holder", {.fence = Fence{key, token}});
    std::cout << ((*lease)->alive() ? "alive " : "lost ") << absl::StatusCodeToString(put.status().code()) << std::endl;
  }
  return 0;
}

class RegistryContract : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (local()) {
      std::string pattern = std::filesystem::temp_directory_path().string() + "/ingot-registry-XXXXXX";
      place_ = ::mkdtemp(pattern.data());
    } else {
      if (!HasEtcd()) GTEST_SKIP() << testing::kNoEtcd;
      place_ = SharedEtcd().endpoints()[0];
    }
    first_ = Open();
    second_ = Open();
    ASSERT_TRUE(first_ != nullptr && second_ != nullptr);
  }
  void TearDown() override {
    first_.reset();
    second_.reset();
    if (local() && !place_.empty()) std::filesystem::remove_all(place_);
  }

  bool local() const { return std::strcmp(GetParam(), "local") == 0; }
  std::unique_ptr<Registry> Open() const {
    auto opened = OpenAt(GetParam(), place_);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? *std::move(opened) : nullptr;
  }
  std::string Key(const std::string& name) const { return prefix_ + name; }
  std::vector<std::string> Shown(Events& events) const {
    std::vector<std::string> shown;
    for (const Event& event : events.all()) {
      std::string text = testing::Show(event);
      text.erase(text.find(prefix_), prefix_.size());
      shown.push_back(text);
    }
    return shown;
  }
  // Tries to lead until the holder's entry is gone.
  PutResult Lead(Registry& registry, const std::string& key, int64_t lease) const {
    const auto end = std::chrono::steady_clock::now() + seconds(30);
    for (;;) {
      const auto put = registry.Put(key, "second", {.lease = lease, .expected_revision = 0});
      EXPECT_TRUE(put.ok()) << put.status();
      if (!put.ok() || put->written || std::chrono::steady_clock::now() > end) return put.ok() ? *put : PutResult();
      std::this_thread::sleep_for(milliseconds(20));
    }
  }

  std::string place_;
  const std::string prefix_ = "test-" + base::RandomHex(6) + "/";
  std::unique_ptr<Registry> first_, second_;  // of two processes
};

TEST_P(RegistryContract, AnEntryKeepsItsCreateRevisionAndGetsNewModRevisions) {
  const Entry made = first_->Put(Key("a"), "1", {})->entry;
  EXPECT_GT(made.create_revision, 0);
  EXPECT_EQ(made.create_revision, made.mod_revision);
  const Entry changed = second_->Put(Key("a"), "2", {})->entry;
  EXPECT_EQ(changed.create_revision, made.create_revision);
  EXPECT_GT(changed.mod_revision, made.mod_revision);
  const auto read = *first_->Get(Key("a"));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->value, "2");
  EXPECT_EQ(read->mod_revision, changed.mod_revision);
  ASSERT_TRUE(first_->Delete(Key("a")).ok());
  EXPECT_FALSE((*second_->Get(Key("a"))).has_value());
  EXPECT_TRUE(first_->Delete(Key("a")).ok());
  EXPECT_GT(first_->Put(Key("a"), "3", {})->entry.create_revision, changed.mod_revision);
}

TEST_P(RegistryContract, TheFirstWriterWinsAndTheNextGetsItsEntry) {
  const PutResult won = *first_->Put(Key("a"), "1", {.expected_revision = 0});
  EXPECT_TRUE(won.written);
  const PutResult late = *second_->Put(Key("a"), "2", {.expected_revision = 0});
  EXPECT_FALSE(late.written);
  EXPECT_EQ(late.entry.value, "1");
  EXPECT_EQ(late.entry.create_revision, won.entry.create_revision);
  const PutResult next = *second_->Put(Key("a"), "2", {.expected_revision = won.entry.mod_revision});
  EXPECT_TRUE(next.written);
  EXPECT_FALSE(first_->Put(Key("a"), "3", {.expected_revision = won.entry.mod_revision})->written);
  const PutResult none = *first_->Put(Key("b"), "3", {.expected_revision = won.entry.mod_revision});
  EXPECT_FALSE(none.written);
  EXPECT_EQ(none.entry.key, "");
}

TEST_P(RegistryContract, ARepeatedPutCountsAsWritten) {
  const auto lease = *first_->Grant(seconds(10), nullptr), other = *second_->Grant(seconds(10), nullptr);
  const PutOptions mine{.lease = lease->id(), .expected_revision = 0};
  const PutResult once = *first_->Put(Key("a"), "1", mine), again = *first_->Put(Key("a"), "1", mine);
  EXPECT_TRUE(once.written);
  EXPECT_TRUE(again.written);
  EXPECT_EQ(again.entry.mod_revision, once.entry.mod_revision);
  EXPECT_FALSE(second_->Put(Key("a"), "1", {.lease = other->id(), .expected_revision = 0})->written);
}

TEST_P(RegistryContract, ListsTheKeysBelowAPrefixInOrder) {
  for (const char* name : {"b", "a/2", "a/\xff", "a/1", "a0", "a"}) {
    ASSERT_TRUE(first_->Put(Key(name), name, {}).ok());
  }
  const Listing below = *second_->List(Key("a/"));
  std::vector<std::string> values;
  for (const Entry& entry : below.entries) values.push_back(entry.value);
  EXPECT_THAT(values, ElementsAre("a/1", "a/2", "a/\xff"));
  EXPECT_GE(below.revision, below.entries[1].mod_revision);
  EXPECT_EQ(second_->List(Key("a"))->entries.size(), 5);
  EXPECT_TRUE(second_->List(Key("none"))->entries.empty());
}

TEST_P(RegistryContract, OneOfManyWinsEachTime) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> won = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        const auto put = (i % 2 == 0 ? first_ : second_)
                             ->Put(Key(absl::StrCat("round-", round)), absl::StrCat(i), {.expected_revision = 0});
        EXPECT_TRUE(put.ok()) << put.status();
        if (put.ok() && put->written) ++won;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(won, 1);
  }
}

TEST_P(RegistryContract, ALeaseTakesItsEntriesAlong) {
  auto lease = *first_->Grant(seconds(10), [] { ADD_FAILURE() << "it was given up, not lost"; });
  EXPECT_GT(lease->id(), 0);
  EXPECT_TRUE(lease->alive());
  ASSERT_TRUE(first_->Put(Key("a"), "1", {.lease = lease->id()}).ok());
  ASSERT_TRUE(first_->Put(Key("b"), "1", {.lease = lease->id()}).ok());
  ASSERT_TRUE(first_->Put(Key("c"), "1", {.lease = lease->id()}).ok());
  ASSERT_TRUE(second_->Put(Key("c"), "2", {}).ok());  // no longer under the lease
  const int64_t id = lease->id();
  lease.reset();
  EXPECT_FALSE((*second_->Get(Key("a"))).has_value());
  EXPECT_FALSE((*second_->Get(Key("b"))).has_value());
  EXPECT_TRUE((*second_->Get(Key("c"))).has_value());
  EXPECT_TRUE(absl::IsNotFound(first_->Put(Key("a"), "1", {.lease = id}).status()));
}

TEST_P(RegistryContract, AStaleFencingTokenIsRejected) {
  auto lease = *first_->Grant(seconds(10), nullptr);
  const auto led = first_->Put(Key("leader"), "first", {.lease = lease->id(), .expected_revision = 0});
  const Fence old{Key("leader"), led->entry.create_revision};
  EXPECT_TRUE(first_->Put(Key("work"), "1", {.fence = old})->written);
  EXPECT_FALSE(first_->Put(Key("work"), "2", {.expected_revision = 0, .fence = old})->written);
  lease.reset();
  EXPECT_TRUE(absl::IsAborted(first_->Put(Key("work"), "2", {.fence = old}).status()));
  const auto next = second_->Put(Key("leader"), "second", {.expected_revision = 0});
  EXPECT_GT(next->entry.create_revision, old.token);
  const auto rejected = first_->Put(Key("work"), "2", {.fence = old});
  EXPECT_TRUE(absl::IsAborted(rejected.status())) << rejected.status();
  EXPECT_TRUE(absl::IsAborted(first_->Put(Key("work"), "2", {.expected_revision = 0, .fence = old}).status()));
  EXPECT_EQ((*second_->Get(Key("work")))->value, "1");
  EXPECT_TRUE(second_->Put(Key("work"), "2", {.fence = Fence{old.key, next->entry.create_revision}})->written);
}

TEST_P(RegistryContract, AWatcherReportsPresentEntriesAndThenEachChange) {
  ASSERT_TRUE(first_->Put(Key("w/a"), "1", {}).ok());
  ASSERT_TRUE(first_->Put(Key("x"), "1", {}).ok());
  Events events;
  auto watcher = second_->Watch(Key("w/"), events.observer());
  ASSERT_TRUE(watcher.ok()) << watcher.status();
  ASSERT_TRUE(events.AwaitCount(1));
  ASSERT_TRUE(first_->Put(Key("w/b"), "1", {}).ok());
  ASSERT_TRUE(events.AwaitCount(2));
  ASSERT_TRUE(first_->Put(Key("w/a"), "2", {}).ok());
  ASSERT_TRUE(first_->Put(Key("x"), "2", {}).ok());
  ASSERT_TRUE(events.AwaitCount(3));
  ASSERT_TRUE(first_->Delete(Key("w/b")).ok());
  ASSERT_TRUE(events.AwaitCount(4));
  watcher->reset();
  ASSERT_TRUE(first_->Put(Key("w/c"), "1", {}).ok());
  EXPECT_THAT(Shown(events), ElementsAre("w/a=1", "w/b=1", "w/a=2", "-w/b"));
}

TEST_P(RegistryContract, RejectsBadArguments) {
  const auto is_bad = [](const absl::Status& status) { return absl::IsInvalidArgument(status); };
  EXPECT_TRUE(is_bad(first_->Put("", "1", {}).status()));
  EXPECT_TRUE(is_bad(first_->Put(std::string(kMaxKeyBytes + 1, 'k'), "1", {}).status()));
  EXPECT_TRUE(is_bad(first_->Put(Key("a"), std::string(kMaxValueBytes + 1, 'v'), {}).status()));
  EXPECT_TRUE(is_bad(first_->Get("").status()));
  EXPECT_TRUE(is_bad(first_->List("").status()));
  EXPECT_TRUE(is_bad(first_->Delete("")));
  EXPECT_TRUE(is_bad(first_->Watch("", [](const Event&) {}).status()));
  EXPECT_TRUE(is_bad(first_->Grant(milliseconds(999), nullptr).status()));
  EXPECT_TRUE(absl::IsNotFound(first_->Put(Key("a"), "1", {.lease = 1}).status()));
  EXPECT_TRUE(first_->Put(Key("a"), std::string(kMaxValueBytes, '\xfe'), {})->written);
}

TEST_P(RegistryContract, APausedHolderLosesItsLeadAndItsTokenIsRejected) {
  Holder holder(GetParam(), place_, Key("leader"));
  const int64_t old = std::atoll(holder.Line().c_str());
  ASSERT_GT(old, 0);
  holder.GoOn();
  EXPECT_EQ(holder.Line(), "alive OK");
  holder.Signal(SIGSTOP);
  const auto lease = *second_->Grant(seconds(10), nullptr);
  const PutResult next = Lead(*second_, Key("leader"), lease->id());
  ASSERT_TRUE(next.written);
  EXPECT_GT(next.entry.create_revision, old);
  holder.Signal(SIGCONT);
  holder.GoOn();
  EXPECT_EQ(holder.Line(), "lost ABORTED");
  EXPECT_EQ((*first_->Get(Key("leader")))->value, "second");
}

TEST_P(RegistryContract, ADeadHolderLosesItsLead) {
  Holder holder(GetParam(), place_, Key("leader"));
  ASSERT_GT(std::atoll(holder.Line().c_str()), 0);
  EXPECT_FALSE(second_->Put(Key("leader"), "second", {.expected_revision = 0})->written);
  Events events;
  const auto watcher = first_->Watch(Key("leader"), events.observer());
  ASSERT_TRUE(events.AwaitCount(1));
  holder.Signal(SIGKILL);
  ASSERT_TRUE(events.AwaitCount(2));
  EXPECT_EQ(Shown(events)[1], "-leader");
  EXPECT_TRUE(second_->Put(Key("leader"), "second", {.expected_revision = 0})->written);
}

INSTANTIATE_TEST_SUITE_P(Kinds, RegistryContract, ::testing::Values("local", "etcd"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace ingot::registry

int main(int argc, char** argv) {
  if (argc == 5 && std::strcmp(argv[1], "--hold") == 0) return ingot::registry::Hold(argv[2], argv[3], argv[4]);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
