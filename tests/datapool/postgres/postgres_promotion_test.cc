// A primary and its synchronous standby, a promotion by hand, and the old primary that comes back without being fenced.
// Callers write and read all along: no read may miss what was acknowledged before it began.
#include <gmock/gmock.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <map>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/mutex.h"
#include "base/rng.h"
#include "datapool/make_pool.h"
#include "datapool/postgres/postgres_server.h"

namespace ingot::datapool {
namespace {

using testing::Append;
using testing::End;
using testing::Open;
using testing::PostgresServer;
using testing::Prompt;
using testing::Sampled;
using Time = std::chrono::steady_clock;

constexpr int kWriters = 3, kReaders = 2, kSamples = 2, kCalls = 3;

double Seconds(Time::duration duration) { return std::chrono::duration<double>(duration).count(); }

// What the pool acknowledged.
class Acknowledged {
 public:
  void Call(const std::string& episode) {
    base::MutexLock lock(mu_);
    ++calls_[episode];
    Count();
  }
  void Group(int64_t group) {
    base::MutexLock lock(mu_);
    groups_.push_back(group);
    Count();
  }
  void Journal(int64_t index, int64_t step) {
    base::MutexLock lock(mu_);
    journal_[index] = step;
    Count();
  }
  int64_t count() const {
    base::MutexLock lock(mu_);
    return count_;
  }
  double longest_gap() const {
    base::MutexLock lock(mu_);
    return Seconds(longest_gap_);
  }
  std::map<std::string, int> calls() const {
    base::MutexLock lock(mu_);
    return calls_;
  }
  std::vector<int64_t> groups() const {
    base::MutexLock lock(mu_);
    return groups_;
  }
  std::map<int64_t, int64_t> journal() const {
    base::MutexLock lock(mu_);
    return journal_;
  }

 private:
  void Count() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const Time::time_point now = Time::now();
    if (count_++ > 0) longest_gap_ = std::max(longest_gap_, now - last_);
    last_ = now;
  }

  mutable base::Mutex mu_;
  std::map<std::string, int> calls_ ABSL_GUARDED_BY(mu_);
  std::vector<int64_t> groups_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, int64_t> journal_ ABSL_GUARDED_BY(mu_);
  int64_t count_ ABSL_GUARDED_BY(mu_) = 0;
  Time::time_point last_ ABSL_GUARDED_BY(mu_);
  Time::duration longest_gap_ ABSL_GUARDED_BY(mu_){};
};

// The parameter: for how many seconds the old primary is paused while the standby is promoted.
class PromotionTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (testing::PostgresPrograms().empty()) GTEST_SKIP() << "PostgreSQL is not installed: scripts/setup.sh services";
    primary_ = std::make_unique<PostgresServer>();
    ASSERT_TRUE(primary_->ok());
    standby_ = std::make_unique<PostgresServer>(*primary_, "standby");
    ASSERT_TRUE(standby_->ok());
    const auto admin = testing::ConnectTo(primary_->url());
    // The standby does not have this setting: after its promotion it writes alone.
    ASSERT_TRUE(admin->Execute("alter system set synchronous_standby_names = 'standby'").ok());
    ASSERT_TRUE(admin->Execute("select pg_reload_conf()").ok());
    while (admin->Execute("select from pg_stat_replication where sync_state = 'sync'")->size() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  // The old primary is the first.
  absl::StatusOr<std::unique_ptr<Client>> OpenPool(const std::string& path) const {
    StoreOptions options;
    options.path = path;
    options.backend = "postgres";
    options.postgres.url =
        absl::StrCat("host=", primary_->folder(), ",", standby_->folder(), " user=ingot dbname=postgres");
    options.postgres.name = "pool";
    options.postgres.allow_single = true;
    options.postgres.retry_after_error_s = 0.1;
    return datapool::OpenPool(options);
  }

  // Sends until the pool answers; the only error is that it is away.
  template <typename Send>
  auto Persist(const Send& send) {
    while (true) {
      auto result = send();
      const absl::Status status = [&]() -> absl::Status {
        if constexpr (std::is_same_v<decltype(result), absl::Status>) {
          return result;
        } else {
          return result.status();
        }
      }();
      if (!absl::IsUnavailable(status) || ended_) return result;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  void Write(Client& pool, int writer) {
    for (int64_t group = writer; !stop_; group += kWriters) {
      for (int sample = 0; sample < kSamples; ++sample) {
        const std::string id = absl::StrCat(group, "-", sample);
        ASSERT_EQ(Persist([&] { return pool.StoreEpisode(Open(id, group, sample)); }), absl::OkStatus());
        for (int call = 0; call < kCalls; ++call) {
          const auto append = Append(id, call, {Prompt({1, 2})}, {Sampled({call})});
          ASSERT_EQ(Persist([&] { return pool.AppendCall(append); }), absl::OkStatus());
          acknowledged_.Call(id);
        }
        ASSERT_EQ(Persist([&] { return pool.StoreEnd(End(id)); }), absl::OkStatus());
      }
      acknowledged_.Group(group);
      const auto index = Persist([&] { return pool.AppendJournal(testing::BatchRecord(group, {group})); });
      ASSERT_TRUE(index.ok()) << index.status();
      acknowledged_.Journal(*index, group);
    }
  }

  // All that was acknowledged by now, or the last of it, is there.
  void Check(Client& pool, bool all) {
    const auto calls = acknowledged_.calls();
    const auto groups = acknowledged_.groups();
    const auto journal = acknowledged_.journal();
    for (size_t i = all || groups.size() < 3 ? 0 : groups.size() - 3; i < groups.size(); ++i) {
      const auto group = Persist([&] { return testing::GetGroup(pool, groups[i]); });
      if (ended_) return;
      ASSERT_TRUE(group.ok()) << group.status();
      ASSERT_EQ(group->episodes_size(), kSamples) << "group " << groups[i];
      for (const v1::EpisodeTree& tree : group->episodes()) {
        ASSERT_EQ(tree.episode().state(), v1::EPISODE_FINISHED) << tree.episode().episode_id();
        ASSERT_EQ(tree.calls_size(), kCalls) << tree.episode().episode_id();
      }
    }
    for (const auto& [id, count] : calls) {
      if (!all && count == kCalls) continue;
      const auto tree = Persist([&] { return testing::Get(pool, id); });
      if (ended_) return;
      ASSERT_TRUE(tree.ok()) << tree.status();
      ASSERT_GE(tree->calls_size(), count) << id;
    }
    if (journal.empty()) return;
    v1::ReadJournalRequest request;
    request.set_from_index(journal.rbegin()->first);
    request.set_limit(1);
    const auto page = Persist([&] { return pool.ReadJournal(request); });
    if (ended_) return;
    ASSERT_TRUE(page.ok()) << page.status();
    ASSERT_EQ(page->records_size(), 1) << "the journal has no record " << request.from_index();
    ASSERT_EQ(page->records(0).batch().step(), journal.rbegin()->second);
    reads_ += 1;
  }

  void AwaitMore(int64_t more) {
    const int64_t have = acknowledged_.count();
    const auto end = Time::now() + std::chrono::seconds(90);
    while (acknowledged_.count() < have + more && Time::now() < end && !HasFailure()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    EXPECT_GE(acknowledged_.count(), have + more) << "the pool does not write again";
  }

  testing::TempDir dir_, fresh_;
  std::unique_ptr<PostgresServer> primary_, standby_;
  Acknowledged acknowledged_;
  std::atomic<bool> stop_{false}, ended_{false};
  std::atomic<int64_t> reads_{0};
};

TEST_P(PromotionTest, AnUnfencedPrimaryIsNeitherReadNorWritten) {
  const auto pool = OpenPool(dir_.path()).value();
  const auto other = OpenPool(dir_.path()).value();  // of a process that only reads
  std::vector<std::jthread> threads;
  for (int i = 0; i < kWriters; ++i) threads.emplace_back([&, i] { Write(*pool, i); });
  for (int i = 0; i < kReaders; ++i) {
    for (Client* const client : {pool.get(), other.get()}) {
      threads.emplace_back([this, client] {
        while (!ended_ && !HasFailure()) Check(*client, /*all=*/false);
      });
    }
  }
  AwaitMore(100);
  const auto paused = Time::now();
  if (GetParam() > 0) primary_->Signal(SIGSTOP);
  std::this_thread::sleep_until(paused + std::chrono::seconds(GetParam()) / 2);
  standby_->Promote();
  const auto promoted = Time::now();
  ASSERT_TRUE(standby_->ok());
  std::this_thread::sleep_until(paused + std::chrono::seconds(GetParam()));
  if (GetParam() > 0) primary_->Signal(SIGCONT);
  AwaitMore(1);
  const auto again = Time::now();
  const int64_t reads = reads_;
  AwaitMore(200);
  while (reads_ < reads + 10 && !HasFailure()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  stop_ = true;
  for (int i = 0; i < kWriters; ++i) threads[static_cast<size_t>(i)].join();
  ended_ = true;
  threads.clear();
  ended_ = false;
  EXPECT_EQ(testing::ConnectTo(primary_->url())->lead()->identity().timeline, 1) << "it still says that it writes";
  Check(*pool, /*all=*/true);
  Check(*other, /*all=*/true);
  // One that remembers nothing: the promoted server is the one on the higher timeline.
  std::filesystem::copy(dir_.path() + "/run_id", fresh_.path() + "/run_id");
  Check(*OpenPool(fresh_.path()).value(), /*all=*/true);
  std::printf(
      "%lld acknowledged, %lld rounds of reads, %.1f s from the promotion to the next acknowledgement, longest gap "
      "%.1f s\n",
      static_cast<long long>(acknowledged_.count()), static_cast<long long>(reads_.load()), Seconds(again - promoted),
      acknowledged_.longest_gap());
  EXPECT_LT(acknowledged_.longest_gap(), 18) << "it waited for the old primary's answer (20 s)";
  // The promoted server is gone: the old primary is refused by name, after a restart too.
  standby_->Stop(SIGQUIT);
  const absl::Status rejected = OpenPool(dir_.path()).status();
  EXPECT_TRUE(absl::IsUnavailable(rejected)) << rejected;
  EXPECT_THAT(std::string(rejected.message()),
              ::testing::AllOf(::testing::HasSubstr(primary_->folder() + ":5432 writes on the old timeline 1"),
                               ::testing::HasSubstr("timeline 2 was seen at " + standby_->folder())));
}

// Returns once there are so many standbys, and they have all of the log.
void AwaitStandbys(PostgresConnection& primary, int count) {
  const std::string sql = absl::StrCat(
      "select where (select count(*) from pg_stat_replication) = ", count,
      " and (select count(*) from pg_stat_replication where replay_lsn >= pg_current_wal_lsn()) = ", count);
  while (primary.Execute(sql)->size() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

// A pool on servers without a synchronous standby.
StoreOptions SingleOptions(const std::string& path, const std::vector<const PostgresServer*>& servers) {
  StoreOptions options;
  options.path = path;
  options.backend = "postgres";
  options.postgres.url = "user=ingot dbname=postgres host=";
  for (const PostgresServer* server : servers) {
    options.postgres.url += (server == servers.front() ? "" : ",") + server->folder();
  }
  options.postgres.name = "pool";
  options.postgres.allow_single = true;
  options.postgres.retry_after_error_s = 0;
  return options;
}

// The status that is not a server's silence or start: OK, or that a server lacks records.
template <typename Send>
absl::Status UntilDecided(const Send& send) {
  const auto end = Time::now() + std::chrono::seconds(60);
  absl::Status status;
  do status = send();
  while (absl::IsUnavailable(status) && status.message().find("is missing acknowledged") == std::string::npos &&
         Time::now() < end);
  return status;
}

// Two standbys without a synchronous one, which are promoted apart: both call their timeline 2, and one lacks records.
TEST(ForkTest, AServerThatLacksAcknowledgedRecordsIsRejected) {
  if (testing::PostgresPrograms().empty()) GTEST_SKIP() << "PostgreSQL is not installed: scripts/setup.sh services";
  PostgresServer primary;
  ASSERT_TRUE(primary.ok());
  PostgresServer whole(primary, "whole"), short_of(primary, "short");
  ASSERT_TRUE(whole.ok() && short_of.ok());
  const testing::TempDir dir;
  const auto pool = datapool::OpenPool(SingleOptions(dir.path(), {&primary, &whole, &short_of})).value();
  ASSERT_TRUE(pool->StoreEpisode(Open("a", 1, 0)).ok());
  const auto admin = testing::ConnectTo(primary.url());
  AwaitStandbys(*admin, 2);
  short_of.Stop(SIGQUIT);
  ASSERT_TRUE(pool->AppendCall(Append("a", 0, {Prompt({1, 2})}, {Sampled({3})})).ok());
  AwaitStandbys(*admin, 1);
  primary.Stop(SIGQUIT);
  short_of.Start();
  short_of.Promote();
  ASSERT_TRUE(short_of.ok());
  const auto end = Time::now() + std::chrono::seconds(60);
  const auto append = [&] { return pool->AppendCall(Append("a", 1, {Prompt({1, 2})}, {Sampled({4})})); };
  const absl::Status rejected = UntilDecided(append);
  EXPECT_TRUE(absl::IsUnavailable(rejected)) << rejected;
  EXPECT_THAT(std::string(rejected.message()),
              ::testing::HasSubstr(short_of.folder() + ":5432 (timeline 2) is missing"));
  EXPECT_TRUE(absl::IsUnavailable(testing::Get(*pool, "a").status())) << "nor is it read";
  whole.Promote();
  ASSERT_TRUE(whole.ok());
  while (!append().ok() && Time::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto tree = testing::Get(*pool, "a");
  ASSERT_TRUE(tree.ok()) << tree.status();
  EXPECT_EQ(tree->calls_size(), 2);
}

// A promoted standby has all records of the first shard, and lacks one of the second. The first shard connects first.
TEST(ForkTest, AServerThatLacksRecordsOfOneShardIsRejectedForAll) {
  if (testing::PostgresPrograms().empty()) GTEST_SKIP() << "PostgreSQL is not installed: scripts/setup.sh services";
  PostgresServer primary;
  ASSERT_TRUE(primary.ok());
  PostgresServer standby(primary, "standby");
  ASSERT_TRUE(standby.ok());
  const testing::TempDir dir;
  StoreOptions options = SingleOptions(dir.path(), {&primary, &standby});
  options.shards = 2;
  const auto pool = datapool::OpenPool(options).value();
  const auto group_of = [](uint64_t shard) {  // as ShardedPool chooses
    int64_t group = 0;
    while (base::DeriveSeed(v1::PURPOSE_TRAIN, static_cast<uint64_t>(group)) % 2 != shard) ++group;
    return group;
  };
  ASSERT_TRUE(pool->StoreEpisode(Open("first", group_of(0), 0)).ok());
  ASSERT_TRUE(pool->StoreEpisode(Open("second", group_of(1), 0)).ok());
  const auto append = [&](const char* id, int call) {
    return pool->AppendCall(Append(id, call, {Prompt({1, 2})}, {Sampled({call})}));
  };
  ASSERT_TRUE(append("first", 0).ok());
  AwaitStandbys(*testing::ConnectTo(primary.url()), 1);
  standby.Stop(SIGQUIT);
  ASSERT_TRUE(append("second", 0).ok());
  primary.Stop(SIGQUIT);
  standby.Start();
  standby.Promote();
  ASSERT_TRUE(standby.ok());
  const absl::Status rejected = UntilDecided([&] { return append("first", 1); });
  EXPECT_TRUE(absl::IsUnavailable(rejected)) << rejected;
  EXPECT_THAT(std::string(rejected.message()),
              ::testing::HasSubstr(standby.folder() +
                                   ":5432 (timeline 2) is missing acknowledged records of \"ingot_pool_1\""));
  for (const char* id : {"first", "second"}) {
    EXPECT_TRUE(absl::IsUnavailable(testing::Get(*pool, id).status())) << "nor is it read";
  }
  const auto calls = [&](int shard) {
    return testing::ConnectTo(standby.url())
        ->Execute(absl::StrCat("select from \"ingot_pool_", shard, "\".record where family = 3"))
        ->size();
  };
  EXPECT_EQ(calls(0), 1) << "nothing was written there";
  EXPECT_EQ(calls(1), 0);
}

// The pool was made after the standby was gone.
TEST(ForkTest, AServerWithoutThePoolsTableIsRejected) {
  if (testing::PostgresPrograms().empty()) GTEST_SKIP() << "PostgreSQL is not installed: scripts/setup.sh services";
  PostgresServer primary;
  ASSERT_TRUE(primary.ok());
  PostgresServer standby(primary, "standby");
  ASSERT_TRUE(standby.ok());
  standby.Stop(SIGQUIT);
  const testing::TempDir dir;
  const auto pool = datapool::OpenPool(SingleOptions(dir.path(), {&primary, &standby})).value();
  ASSERT_TRUE(pool->StoreEpisode(Open("a", 1, 0)).ok());
  primary.Stop(SIGQUIT);
  standby.Start();
  standby.Promote();
  ASSERT_TRUE(standby.ok());
  const absl::Status rejected = UntilDecided([&] { return pool->StoreEpisode(Open("b", 2, 0)); });
  EXPECT_TRUE(absl::IsUnavailable(rejected)) << rejected;
  EXPECT_THAT(std::string(rejected.message()),
              ::testing::HasSubstr(standby.folder() + ":5432 (timeline 2) is missing acknowledged records"));
}

INSTANTIATE_TEST_SUITE_P(Paused, PromotionTest, ::testing::Values(0, 4));

}  // namespace
}  // namespace ingot::datapool
