// The pool in PostgreSQL. It keeps the same laws as the pool on RocksDB; the server is the test's own.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "base/file.h"
#include "datapool/make_pool.h"
#include "datapool/postgres/postgres_connection.h"
#include "datapool/postgres/postgres_database.h"
#include "datapool/postgres/postgres_server.h"
#include "datapool/sharded_pool.h"

namespace ingot::datapool {
namespace {

using testing::Append;
using testing::End;
using testing::Get;
using ::testing::HasSubstr;
using testing::Open;
using testing::PostgresServer;
using testing::Prompt;
using testing::Sampled;

class PostgresTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!testing::PostgresPrograms().empty()) server_ = new PostgresServer;
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  void TearDown() override {
    if (server_ == nullptr) return;
    const auto admin = Admin();
    for (const char* sql : {"alter system reset all", "select pg_reload_conf()"}) EXPECT_TRUE(admin->Execute(sql).ok());
  }
  void SetUp() override {
    if (server_ == nullptr) GTEST_SKIP() << "PostgreSQL is not installed: scripts/setup.sh services";
    ASSERT_TRUE(server_->ok());
    options_.url = server_->url();
    options_.allow_single = true;
    options_.retry_after_error_s = 0;
    options_.run_id = "run";
    options_.name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  }

  StoreOptions Options(int shards) const {
    StoreOptions options;
    options.path = dir_.path();
    options.shards = shards;
    options.backend = "postgres";
    options.postgres = options_;
    return options;
  }
  absl::StatusOr<std::unique_ptr<Client>> OpenPool(int shards = 1, bool read_only = false) {
    StoreOptions options = Options(shards);
    options.read_only = read_only;
    return datapool::OpenPool(options);
  }
  absl::Status CheckPool(int shards = 1) const { return datapool::CheckPool(Options(shards)); }
  static std::unique_ptr<PostgresConnection> Admin() { return testing::ConnectTo(server_->url()); }
  // Returns once the server commits by the new setting.
  static void SetStandbys(PostgresConnection& admin, const std::string& names) {
    ASSERT_TRUE(admin.Execute("alter system set synchronous_standby_names = " + names).ok());
    ASSERT_TRUE(admin.Execute("select pg_reload_conf()").ok());
    const std::string wanted = names.substr(1, names.size() - 2);
    while (admin.Execute("show synchronous_standby_names")->Value(0, 0) != wanted) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    while (!wanted.empty() && !CommitWaits(admin)) {
    }
  }

  // Whether a commit waits for a standby: the server's processes learn of the setting one after the other.
  static bool CommitWaits(PostgresConnection& admin) {
    const auto connection = Admin();
    std::atomic<bool> ended = false;
    const std::jthread committing([&] {
      (void)connection->Execute("select pg_logical_emit_message(true, 'a commit', '')");
      ended = true;
    });
    bool waits = false;
    while (!ended && !waits) {
      waits = admin.Execute(kCancelWaits)->size() > 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return waits;
  }

  static constexpr char kCancelWaits[] =
      "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'";
  static PostgresServer* server_;
  testing::TempDir dir_;
  PostgresOptions options_;
};

PostgresServer* PostgresTest::server_ = nullptr;

// Four pools of one name, as four processes have them: each append is there once, counters and journal are those of one
// pool, and of equal journal indices one writer gets each.
TEST_F(PostgresTest, SeveralProcessesHaveOnePoolOpen) {
  constexpr int kPools = 4, kEpisodes = 10, kCalls = 5;
  std::vector<std::thread> threads;
  std::atomic<int> rejected{0};
  for (int i = 0; i < kPools; ++i) {
    threads.emplace_back([&, i] {
      const auto pool = OpenPool().value();
      for (int episode = 0; episode < kEpisodes; ++episode) {
        const std::string id = std::to_string(i) + "-" + std::to_string(episode);
        ASSERT_TRUE(pool->StoreEpisode(Open(id, episode, i)).ok());
        for (int call = 0; call < kCalls; ++call) {
          ASSERT_TRUE(pool->AppendCall(Append(id, call, {Prompt({episode, 1, 2})}, {Sampled({i, call})})).ok());
        }
        ASSERT_TRUE(pool->StoreEnd(End(id)).ok());
        v1::AppendJournalRequest record = testing::ClosedRecord(1000 * i + episode);
        record.set_expected_index(episode);  // each index is tried by all, and one of them gets it
        const auto index = pool->AppendJournal(record);
        if (absl::IsAborted(index.status()))
          ++rejected;
        else
          ASSERT_TRUE(index.ok()) << index.status();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto pool = OpenPool().value();
  const auto counts = pool->Status().value();
  EXPECT_EQ(counts.episodes(), kPools * kEpisodes);
  EXPECT_EQ(counts.calls(), kPools * kEpisodes * kCalls);
  EXPECT_EQ(counts.journal_end(), kPools * kEpisodes - rejected);
  EXPECT_LE(counts.journal_end(), kEpisodes);
  const auto journal = pool->ReadJournal({}).value();
  for (int i = 0; i < journal.records_size(); ++i) EXPECT_EQ(journal.records(i).index(), i);
  for (int64_t group = 0; group < kEpisodes; ++group) {
    EXPECT_EQ(testing::GetGroup(*pool, group)->episodes_size(), kPools);
  }
}

// The server ends as in a crash while callers append, and comes again: each acknowledged call is there, the others may be
// sent again.
TEST_F(PostgresTest, AcknowledgedCallsSurviveACrashOfTheServer) {
  const auto pool = OpenPool().value();
  constexpr int kThreads = 4, kCalls = 150;
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const std::string id = "e" + std::to_string(i);
      const auto until_ok = [&](const auto& send) {
        for (int tries = 0; tries < 600; ++tries) {
          const absl::Status status = send();
          if (status.ok()) return;
          ASSERT_TRUE(absl::IsUnavailable(status)) << status;
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
        FAIL() << "the pool did not come again";
      };
      until_ok([&] { return pool->StoreEpisode(Open(id, i, 0)); });
      for (int call = 0; call < kCalls; ++call) {
        until_ok([&] { return pool->AppendCall(Append(id, call, {Prompt({1, 2})}, {Sampled({i, call})})); });
        ++done;
      }
    });
  }
  while (done < kThreads * kCalls / 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  server_->Stop(SIGQUIT);
  server_->Start();
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(server_->ok());
  for (int i = 0; i < kThreads; ++i) {
    const auto tree = Get(*pool, "e" + std::to_string(i));
    ASSERT_TRUE(tree.ok()) << tree.status();
    EXPECT_EQ(tree->calls_size(), kCalls);
  }
  EXPECT_EQ(pool->Status()->calls(), kThreads * kCalls);
}

// The disk of the server is full while callers append. What it acknowledges is there, and appends go on once there is room,
// with a server that is started again if it ended.
TEST_F(PostgresTest, AFullDiskOfTheServerLosesNoAcknowledgedCall) {
  if (::getuid() != 0) GTEST_SKIP() << "a disk of its own needs root";
  PostgresServer full({"min_wal_size=32MB", "max_wal_size=64MB"}, 192);
  if (!full.ok()) GTEST_SKIP() << "no tmpfs can be mounted, or the server does not start on it";
  options_.url = full.url();
  const auto pool = OpenPool().value();
  ASSERT_TRUE(pool->StoreEpisode(Open("e", 0, 0)).ok());
  std::vector<int32_t> ids(20000);
  std::mt19937 random(1);
  const auto call = [&](int number) {
    std::generate(ids.begin(), ids.end(),
                  [&] { return static_cast<int32_t>(random() % 150000); });  // not to be compressed
    return Append("e", number, {Prompt(ids)}, {Sampled({number})});
  };
  int acknowledged = 0;
  for (; acknowledged < 3; ++acknowledged) ASSERT_TRUE(pool->AppendCall(call(acknowledged)).ok());
  const std::string filler = full.folder() + "/filler";
  {
    std::ofstream file(filler, std::ios::binary);
    const std::string block(1 << 20, 'x');
    while (file.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }
  v1::AppendCallRequest rejected;
  absl::Status status;
  for (int tries = 0; status.ok() && tries < 2000; ++tries) {  // the log's segments have some room
    rejected = call(acknowledged);
    status = pool->AppendCall(rejected);
    acknowledged += status.ok() ? 1 : 0;
  }
  ASSERT_FALSE(status.ok()) << acknowledged << " calls were acknowledged on a full disk";
  EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsResourceExhausted(status)) << status;
  std::filesystem::remove(filler);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!(status = pool->AppendCall(rejected)).ok() && std::chrono::steady_clock::now() < end) {
    if (full.HasEnded()) full.Start();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Get(*pool, "e")->calls_size(), acknowledged + 1);
  EXPECT_EQ(pool->Status()->calls(), acknowledged + 1);
}

// A process that is paused inside a commit holds the shard's lock; the server ends its session.
TEST_F(PostgresTest, APausedWriterLosesItsLock) {
  ASSERT_TRUE(OpenPool().ok());
  options_.run_id = base::ReadFile(dir_.path() + "/run_id").value();
  const auto database = OpenPostgresDatabase(options_, 0, LayoutName(0, 1), base::Clock::Real()).value();
  auto paused = database->NewBatch();
  paused->Put(kMeta, "late", "x");
  const auto pool = OpenPool().value();
  ASSERT_TRUE(pool->StoreEpisode(Open("a", 1, 0)).ok());  // waits some 10 s
  EXPECT_TRUE(absl::IsUnavailable(database->Write(*paused)));
  EXPECT_TRUE(database->failed());
  paused.reset();
  ASSERT_TRUE(database->Recover().ok());
  EXPECT_TRUE(absl::IsNotFound(database->Read()->Get(kMeta, "late").status()));
}

// A commit whose standby is gone is in doubt, whatever the server shows: after it starts again, and after the wait for the
// standby is cancelled, a repeated append is acknowledged by the standby alone.
TEST_F(PostgresTest, NothingIsAcknowledgedWithoutTheStandby) {
  options_.answer_timeout_s = 0.5;
  const auto pool = OpenPool().value();
  ASSERT_TRUE(pool->StoreEpisode(Open("a", 1, 0)).ok());
  const auto admin = Admin();
  SetStandbys(*admin, "'nobody'");
  const auto append = Append("a", 0, {Prompt({1, 2})}, {Sampled({3})});
  EXPECT_TRUE(absl::IsUnavailable(pool->AppendCall(append))) << "the standby never answered";
  // The waiting commit, cancelled, is on this server alone. Readers see it.
  ASSERT_TRUE(admin->Execute(kCancelWaits).ok());
  const auto stored = [&] {
    return admin->Execute("select * from \"ingot_" + options_.name + "_0\".record where family = 3")->size();
  };
  while (stored() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(absl::IsUnavailable(pool->AppendCall(append))) << "a repeated append";
  server_->Stop(SIGQUIT);
  server_->Start();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(absl::IsUnavailable(pool->AppendCall(append))) << "after the server's crash";
  EXPECT_FALSE(Get(*pool, "a").ok()) << "a new connection awaits the standby of all that it shows";
  SetStandbys(*Admin(), "''");
  absl::Status again;
  for (int tries = 0; tries < 100 && !(again = pool->AppendCall(append)).ok(); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_TRUE(again.ok()) << again;
  EXPECT_EQ(pool->Status()->calls(), 1);
}

// A cancelled wait ends a commit with a warning and no error. Another process then sees the record, and must not
// acknowledge it again before the standby has it.
TEST_F(PostgresTest, ACancelledWaitForTheStandbyIsNoAcknowledgement) {
  const auto pool = OpenPool().value();
  options_.answer_timeout_s = 0.5;
  const auto other = OpenPool().value();
  ASSERT_TRUE(other->StoreEpisode(Open("a", 1, 0)).ok());
  const auto admin = Admin();
  SetStandbys(*admin, "'nobody'");
  const auto append = Append("a", 0, {Prompt({1, 2})}, {Sampled({3})});
  absl::Status appended;
  std::thread appending([&] { appended = pool->AppendCall(append); });
  while (admin->Execute(kCancelWaits)->size() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  appending.join();
  EXPECT_TRUE(absl::IsUnavailable(appended)) << appended;
  EXPECT_THAT(std::string(appended.message()), HasSubstr("which may be lost"));
  EXPECT_TRUE(absl::IsUnavailable(other->AppendCall(append)));
  SetStandbys(*admin, "''");
  EXPECT_EQ(other->AppendCall(append), absl::OkStatus());
}

TEST_F(PostgresTest, AServerThatHangsIsNamedAndTheRunGoesOnWithIt) {
  options_.answer_timeout_s = 0.5;
  const auto pool = OpenPool().value();
  ASSERT_TRUE(pool->StoreEpisode(Open("a", 1, 0)).ok());
  server_->Signal(SIGSTOP);
  const absl::Status hung = pool->StoreEpisode(Open("b", 2, 0));
  server_->Signal(SIGCONT);
  EXPECT_TRUE(absl::IsUnavailable(hung)) << hung;
  EXPECT_THAT(std::string(hung.message()), HasSubstr("did not respond within 0.5 s"));
  absl::Status again;
  for (int tries = 0; tries < 100 && !(again = pool->StoreEpisode(Open("b", 2, 0))).ok(); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_TRUE(again.ok()) << again;
  EXPECT_EQ(pool->Status()->episodes(), 2);
}

// Settings may change while a run goes on.
TEST_F(PostgresTest, ARunWaitsWhileItsServerIsNotDurable) {
  const auto pool = OpenPool().value();
  const auto admin = Admin();
  ASSERT_TRUE(admin->Execute("alter system set synchronous_commit = 'local'").ok());
  ASSERT_TRUE(admin->Execute("select pg_reload_conf()").ok());
  absl::Status opened;
  for (int i = 0; i < 100 && (opened = pool->StoreEpisode(Open("b" + std::to_string(i), 2, i))).ok(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(absl::IsUnavailable(opened)) << "the caller waits: " << opened;
  EXPECT_THAT(std::string(opened.message()), HasSubstr("synchronous_commit = 'local'"));
  ASSERT_TRUE(admin->Execute("alter system reset synchronous_commit").ok());
  ASSERT_TRUE(admin->Execute("select pg_reload_conf()").ok());
  for (int i = 100; i < 200 && !(opened = pool->StoreEpisode(Open("c", 3, i))).ok(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(opened.ok()) << opened;
}

// A standby that is named and not connected: the opening ends with the cause.
TEST_F(PostgresTest, AnOpeningWithoutItsStandbyEnds) {
  const auto admin = Admin();
  SetStandbys(*admin, "'nobody'");
  options_.answer_timeout_s = 0.5;
  const absl::Status opened = OpenPool().status();
  EXPECT_TRUE(absl::IsUnavailable(opened)) << opened;
  EXPECT_THAT(std::string(opened.message()), HasSubstr("a commit is waiting for a lost standby"));
  SetStandbys(*admin, "''");
}

TEST_F(PostgresTest, APoolThatAnotherRunTookIsNotWritten) {
  const auto pool = OpenPool().value();
  ASSERT_TRUE(pool->StoreEpisode(Open("a", 1, 0)).ok());
  std::filesystem::remove(dir_.path() + "/run_id");
  options_.replace = true;
  const auto other = OpenPool().value();
  const absl::Status rejected = pool->StoreEpisode(Open("b", 1, 1));
  EXPECT_TRUE(absl::IsUnavailable(rejected)) << rejected;
  EXPECT_THAT(std::string(rejected.message()), HasSubstr("was taken by another run"));
  EXPECT_EQ(other->Status()->episodes(), 0);
}

TEST_F(PostgresTest, APoolForReadingAloneChangesNothing) {
  const auto pool = OpenPool().value();
  ASSERT_TRUE(pool->StoreEpisode(Open("a", 1, 0)).ok());
  const auto admin = Admin();
  const auto written = [&] { return std::string(admin->Execute("select pg_current_wal_lsn()")->Value(0, 0)); };
  ASSERT_TRUE(admin->Execute("checkpoint").ok());
  const std::string before = written();
  const auto reader = OpenPool(1, /*read_only=*/true).value();
  EXPECT_TRUE(Get(*reader, "a").ok());
  EXPECT_EQ(reader->StoreEpisode(Open("b", 2, 0)).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(written(), before);
  options_.name = "Absent";
  EXPECT_TRUE(absl::IsNotFound(OpenPool(1, /*read_only=*/true).status()));
}

// The run's folder names its pool. Another run of the same name is refused, or deletes the pool if it may.
TEST_F(PostgresTest, APoolBelongsToItsRun) {
  ASSERT_TRUE(OpenPool().value()->StoreEpisode(Open("a", 1, 0)).ok());
  EXPECT_EQ(OpenPool().value()->Status()->episodes(), 1);
  std::filesystem::remove(dir_.path() + "/run_id");
  EXPECT_THAT(std::string(OpenPool().status().message()), HasSubstr("belongs to another run"));
  options_.replace = true;
  EXPECT_EQ(OpenPool().value()->Status()->episodes(), 0);
  EXPECT_EQ(OpenPool().value()->StoreEpisode(Open("a", 1, 0)), absl::OkStatus());
  EXPECT_EQ(OpenPool().value()->Status()->episodes(), 1);
}

TEST_F(PostgresTest, APoolOfAnotherSchemaIsRejectedByName) {
  ASSERT_TRUE(OpenPool().value()->StoreEpisode(Open("a", 1, 0)).ok());
  const std::string table = "\"ingot_" + options_.name + "_0\".record";
  ASSERT_TRUE(
      Admin()->Execute("update " + table + " set value = 'ingot datapool 5' where family = 0 and key = 'schema'").ok());
  for (const bool read_only : {false, true}) {
    const absl::Status rejected = OpenPool(1, read_only).status();
    EXPECT_EQ(rejected.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(rejected.message()),
                ::testing::AllOf(HasSubstr("'ingot datapool 5'"), HasSubstr("'ingot datapool 4'")));
  }
}

TEST_F(PostgresTest, RejectsSettingsThatLoseCommits) {
  options_.allow_single = false;
  EXPECT_THAT(std::string(OpenPool().status().message()), HasSubstr("synchronous_standby_names"));
  options_.allow_single = true;
  options_.url += " options='-c synchronous_commit=off'";
  EXPECT_EQ(OpenPool().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(OpenPool().status().message()), HasSubstr("synchronous_commit = 'off'"));
}

// The check before a start refuses as the opening does, and changes nothing.
TEST_F(PostgresTest, RejectsWhatIsNotItsPool) {
  EXPECT_EQ(CheckPool(2), absl::OkStatus()) << "a pool yet to be made";
  EXPECT_FALSE(std::filesystem::exists(dir_.path() + "/run_id"));
  EXPECT_EQ(Admin()->Execute("select 1 from pg_namespace where nspname like 'ingot_" + options_.name + "_%'")->size(),
            0);
  ASSERT_TRUE(OpenPool(2).ok());
  EXPECT_EQ(CheckPool(2), absl::OkStatus());
  const auto expect = [&](int shards, absl::StatusCode code, const std::string& text) {
    for (const absl::Status& rejected : {CheckPool(shards), OpenPool(shards).status()}) {
      EXPECT_EQ(rejected.code(), code) << rejected;
      EXPECT_THAT(std::string(rejected.message()), HasSubstr(text));
    }
  };
  expect(3, absl::StatusCode::kFailedPrecondition, "number of shards");
  const std::string url = options_.url;
  options_.url = "host=/nowhere user=ingot";
  expect(2, absl::StatusCode::kUnavailable, "/nowhere");
  options_.url = "host=127.0.0.1 port=1 user=ingot";
  expect(2, absl::StatusCode::kUnavailable, "port 1");
  options_.url = url + " dbname=nothing";
  expect(2, absl::StatusCode::kFailedPrecondition, "database \"nothing\" does not exist");
  options_.url = url + " user=nobody";
  expect(2, absl::StatusCode::kFailedPrecondition, "role \"nobody\" does not exist");
  for (const char* wrong : {"hots=here", "postgresql://[::1", "just words", "host='open"}) {
    options_.url = wrong;
    expect(2, absl::StatusCode::kInvalidArgument, "");
  }
  options_.url = url;
  ASSERT_TRUE(Admin()->Execute("create role guest login").ok());
  options_.url = url + " user=guest";
  options_.name = "Fresh";
  expect(1, absl::StatusCode::kFailedPrecondition, "");
  EXPECT_THAT(std::string(CheckPool().message()), HasSubstr("grant create on database postgres to guest"));
  options_.url = url;
  options_.name = "";
  expect(1, absl::StatusCode::kInvalidArgument, "name must have 1 to 48 characters");
  options_.name = "it's";
  expect(1, absl::StatusCode::kInvalidArgument, "letters, digits");
  options_.name = "n";
  options_.answer_timeout_s = 0;
  expect(1, absl::StatusCode::kInvalidArgument, "answer_timeout_s");
}

// The server takes another password than the one that it is given.
TEST_F(PostgresTest, CredentialsThatFailAreSaid) {
  const auto admin = Admin();
  ASSERT_TRUE(admin->Execute("drop role if exists locked; create role locked login password 'right'").ok());
  const std::string hba = server_->data() + "/pg_hba.conf";
  const std::string before = base::ReadFile(hba).value();
  ASSERT_TRUE(base::WriteFileDurably(hba, "local all locked scram-sha-256\n" + before).ok());
  ASSERT_TRUE(admin->Execute("select pg_reload_conf()").ok());
  options_.url += " user=locked password=wrong";
  absl::Status rejected;
  for (int tries = 0; tries < 100 && (rejected = CheckPool()).message().find("password") == std::string::npos;
       ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(rejected.code(), absl::StatusCode::kFailedPrecondition) << rejected;
  EXPECT_THAT(std::string(rejected.message()), HasSubstr("password authentication failed"));
  EXPECT_THAT(std::string(rejected.message()), ::testing::Not(HasSubstr("wrong")));
  ASSERT_TRUE(base::WriteFileDurably(hba, before).ok());
}

}  // namespace
}  // namespace ingot::datapool
