// Three members, of which one dies or is paused: no lease is lost, no event is lost.
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "etcd_cluster.h"
#include "events.h"
#include "registry/grpc_etcd.h"

namespace ingot::registry {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::EtcdCluster;
using testing::Events;

constexpr seconds kTtl(6);

// A process of the run: it holds a lease, watches, and asks member `first` first.
struct Process {
  Process(const EtcdCluster& cluster, int first) {
    auto connected = ConnectEtcd(cluster.options(first));
    EXPECT_TRUE(connected.ok()) << connected.status();
    registry = *std::move(connected);
    lease = *registry->Grant(kTtl, [this] { lost = true; });
    EXPECT_TRUE(registry->Put(absl::StrCat("roles/", first), "here", {.lease = lease->id()}).ok());
    watcher = *registry->Watch("numbers/", events.observer());
  }
  Events events;
  std::atomic<bool> lost = false;
  std::unique_ptr<Registry> registry;
  std::unique_ptr<Lease> lease;
  std::unique_ptr<Watcher> watcher;
};

std::string NumberKey(int number) { return absl::StrCat("numbers/", 100000 + number); }

class EtcdFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::HasEtcd()) GTEST_SKIP() << testing::kNoEtcd;
    cluster_ = std::make_unique<EtcdCluster>(3);
    ASSERT_TRUE(cluster_->AwaitReady());
    leader_ = cluster_->Leader();
    ASSERT_GE(leader_, 0);
  }

  // Writes numbers for longer than a lease lives, with `fault` after the first second. Then every process holds its lease,
  // and was told each number once and in order.
  void SurvivesWhileWriting(const std::function<void()>& fault) {
    std::vector<std::unique_ptr<Process>> processes;
    for (int i = 0; i < 3; ++i) processes.push_back(std::make_unique<Process>(*cluster_, i));
    const auto writer = ConnectEtcd(cluster_->options());
    ASSERT_TRUE(writer.ok()) << writer.status();
    const auto start = std::chrono::steady_clock::now();
    milliseconds longest(0);
    int written = 0;
    for (bool done = false; std::chrono::steady_clock::now() - start < kTtl + seconds(4);) {
      if (!done && std::chrono::steady_clock::now() - start > seconds(1)) {
        fault();
        done = true;
      }
      const auto before = std::chrono::steady_clock::now();
      const auto put = (*writer)->Put(NumberKey(written), "", {.expected_revision = 0});
      ASSERT_TRUE(put.ok()) << put.status();
      ASSERT_TRUE(put->written);
      ++written;
      longest = std::max(longest, std::chrono::ceil<milliseconds>(std::chrono::steady_clock::now() - before));
      std::this_thread::sleep_for(milliseconds(5));
    }
    std::printf("%d writes, the longest took %d ms\n", written, static_cast<int>(longest.count()));
    for (const auto& process : processes) {
      EXPECT_TRUE(process->events.AwaitCount(written)) << process->events.all().size() << " of " << written;
      const std::vector<Event> events = process->events.all();
      ASSERT_EQ(events.size(), written);
      for (int i = 0; i < written; ++i) ASSERT_EQ(events[i].entry.key, NumberKey(i));
      EXPECT_FALSE(process->lost);
      EXPECT_TRUE(process->lease->alive());
    }
    EXPECT_EQ((*writer)->List("roles/")->entries.size(), 3);
  }

  std::unique_ptr<EtcdCluster> cluster_;
  int leader_ = -1;
};

TEST_F(EtcdFaults, TheLeadersDeathLosesNoLeaseAndNoEvent) {
  SurvivesWhileWriting([this] { cluster_->Kill(leader_); });
}

TEST_F(EtcdFaults, TheLeadersPauseLosesNoLeaseAndNoEvent) {
  SurvivesWhileWriting([this] { cluster_->Signal(leader_, SIGSTOP); });
}

TEST_F(EtcdFaults, WithoutAMajorityALeaseIsLostInTime) {
  Process process(*cluster_, leader_);
  cluster_->Kill((leader_ + 1) % 3);
  cluster_->Kill((leader_ + 2) % 3);
  const auto start = std::chrono::steady_clock::now();
  while (!process.lost && std::chrono::steady_clock::now() - start < seconds(20)) {
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_TRUE(process.lost);
  EXPECT_FALSE(process.lease->alive());
  EXPECT_LT(std::chrono::steady_clock::now() - start, kTtl + seconds(4));
}

// A watcher that knows one member alone is cut off while that member is down, for longer than the history is kept.
TEST_F(EtcdFaults, AWatchGoesOnAfterAHistoryThatIsGone) {
  const int other = (leader_ + 1) % 3;
  EtcdOptions only = cluster_->options();
  only.endpoints = {cluster_->endpoints(other)[0]};
  const auto registry = *ConnectEtcd(only), writer = *ConnectEtcd(cluster_->options(leader_));
  Events events;
  const auto watcher = *registry->Watch("numbers/", events.observer());
  ASSERT_TRUE(writer->Put("numbers/old", "1", {}).ok());
  ASSERT_TRUE(events.AwaitCount(1));
  cluster_->Kill(other);
  ASSERT_TRUE(writer->Delete("numbers/old").ok());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(writer->Put("numbers/new", absl::StrCat(i), {}).ok());
  const int64_t revision = (*writer->Get("numbers/new"))->mod_revision;
  const std::string compacted = cluster_->Control(absl::StrCat("compaction --physical ", revision), leader_);
  ASSERT_NE(compacted.find("compacted"), std::string::npos) << compacted;
  cluster_->Start(other);
  EXPECT_TRUE(events.Await([](const std::vector<Event>& reported) { return reported.size() >= 3; }, seconds(60)));
  std::vector<std::string> shown;
  for (const Event& event : events.all()) shown.push_back(testing::Show(event));
  EXPECT_EQ(shown, (std::vector<std::string>{"numbers/old=1", "numbers/new=9", "-numbers/old"}));
}

// As the launcher of a run, which has no server whose threads would read what a member sends.
TEST_F(EtcdFaults, AProcessThatServesNothingFindsAMemberThatCameBack) {
  const int other = (leader_ + 1) % 3;
  EtcdOptions only = cluster_->options();
  only.endpoints = {cluster_->endpoints(other)[0]};
  const auto registry = *ConnectEtcd(only);
  ASSERT_TRUE(registry->Put("here", "1", {}).ok());
  cluster_->Kill(other);
  ASSERT_FALSE(registry->Get("here").ok());
  cluster_->Start(other);
  bool found = false;
  for (const auto start = std::chrono::steady_clock::now();
       !found && std::chrono::steady_clock::now() - start < seconds(60);) {
    found = registry->Get("here").ok();
  }
  EXPECT_TRUE(found);
}

// As above, by a watch alone: no call of this process reads what a member sends meanwhile.
TEST_F(EtcdFaults, AWatchOfAProcessThatServesNothingFindsAMemberThatCameBack) {
  const int other = (leader_ + 1) % 3;
  EtcdOptions only = cluster_->options();
  only.endpoints = {cluster_->endpoints(other)[0]};
  const auto registry = *ConnectEtcd(only);
  Events events;
  const auto watcher = *registry->Watch("numbers/", events.observer());
  cluster_->Control("put numbers/1 a", leader_);
  ASSERT_TRUE(events.AwaitCount(1));
  cluster_->Kill(other);
  std::this_thread::sleep_for(seconds(3));  // the channel has tried in vain
  cluster_->Start(other);
  cluster_->Control("put numbers/2 b", leader_);
  EXPECT_TRUE(events.Await([](const std::vector<Event>& reported) { return reported.size() >= 2; }, seconds(60)));
}

}  // namespace
}  // namespace ingot::registry
