// Which server of PostgreSQL a pool uses: the choice, the memory of timelines, and connecting to servers that hang, are
// replaced or come back. Needs no PostgreSQL.
#include "datapool/postgres/postgres_servers.h"

#include <gmock/gmock.h>

#include <atomic>
#include <latch>
#include <thread>

#include "datapool/make_pool.h"
#include "datapool/postgres/fake_postgres.h"

namespace ingot::datapool {
namespace {

using ::testing::AllOf;
using testing::FakePostgres;
using ::testing::HasSubstr;

PostgresIdentity Server(int64_t timeline, const std::string& started, const std::string& system = "7") {
  return {system, timeline, started};
}

std::string Text(const absl::Status& status) { return std::string(status.message()); }

TEST(ChooseLeader, TakesTheOneThatWritesOnTheHighestTimeline) {
  const PostgresAnswer old{"a:1", false, Server(1, "1")}, promoted{"b:1", false, Server(2, "2")},
      standby{"c:1", true, Server(2, "3")}, twin{"d:1", false, Server(2, "4")},
      stranger{"e:1", false, Server(9, "5", "8")}, alias{"f:1", false, Server(2, "2")};
  const PostgresTimelines none;
  EXPECT_EQ(*ChooseLeader({old}, none, nullptr), 0u);
  EXPECT_EQ(*ChooseLeader({old, promoted}, none, nullptr), 1u);
  EXPECT_EQ(*ChooseLeader({promoted, old, standby}, none, nullptr), 0u);
  EXPECT_EQ(*ChooseLeader({old, promoted}, none, &old.identity), 1u) << "it led before, and is replaced";
  EXPECT_EQ(*ChooseLeader({promoted, alias}, none, nullptr), 0u) << "one server under two names";
  EXPECT_EQ(*ChooseLeader({promoted, twin}, none, &twin.identity), 1u);
  EXPECT_EQ(*ChooseLeader({stranger, old}, none, &old.identity), 1u);

  const auto rejected = [&](const std::vector<PostgresAnswer>& answers) {
    return ChooseLeader(answers, none, nullptr).status();
  };
  EXPECT_TRUE(absl::IsUnavailable(rejected({standby})));
  EXPECT_THAT(Text(rejected({standby})), HasSubstr("no server accepts writes: c:1 is a standby on timeline 2"));
  EXPECT_TRUE(absl::IsUnavailable(rejected({old, standby}))) << "somebody is on timeline 2";
  EXPECT_THAT(Text(rejected({old, standby})), HasSubstr("a:1 writes on the old timeline 1"));
  EXPECT_THAT(Text(rejected({promoted, twin})), HasSubstr("b:1 and d:1 both write on timeline 2"));
  EXPECT_EQ(rejected({promoted, stranger}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Text(rejected({promoted, stranger})), HasSubstr("b:1 and e:1 write, but belong to different clusters"));
}

TEST(PostgresTimelines, AreRememberedOverRestartsAndByOtherProcesses) {
  const testing::TempDir dir;
  PostgresTimelines first(dir.path()), second(dir.path());
  first.Saw({"b:1", false, Server(10, "2")});
  first.Saw({"a:1", false, Server(9, "1")});
  EXPECT_EQ(first.Highest("7"), 10);
  EXPECT_EQ(second.Highest("7"), 0);
  second.Load();
  EXPECT_EQ(second.Highest("7"), 10);
  EXPECT_EQ(second.Highest("8"), 0) << "another cluster";
  const absl::Status rejected = ChooseLeader({{"a:1", false, Server(9, "1")}}, second, nullptr).status();
  EXPECT_TRUE(absl::IsUnavailable(rejected));
  EXPECT_THAT(Text(rejected), AllOf(HasSubstr("timeline 10 was seen at b:1"), HasSubstr("delete " + dir.path())));
  PostgresTimelines reader(dir.path(), /*read_only=*/true);
  reader.Saw({"c:1", false, Server(11, "3")});
  second.Load();
  EXPECT_EQ(second.Highest("7"), 10) << "one that only reads writes nothing";
}

class PostgresServersTest : public ::testing::Test {
 protected:
  std::shared_ptr<PostgresServers> Servers(std::vector<const FakePostgres*> hosts, double connect_timeout = 30,
                                           bool watch = false,
                                           std::chrono::milliseconds watch_every = std::chrono::seconds(5)) {
    std::string url = "user=u connect_timeout=" + std::to_string(static_cast<int>(connect_timeout)) + " host=";
    for (const FakePostgres* host : hosts) url += (host == hosts.front() ? "" : ",") + host->host();
    return PostgresServers::Make({.url = url,
                                  .answer_timeout = answer_timeout_,
                                  .folder = dir_.path(),
                                  .watch = watch,
                                  .look_every = std::chrono::milliseconds(20),
                                  .watch_every = watch_every})
        .value();
  }
  // Whether the watch sees within a while that another server leads.
  static bool Ends(const PostgresLead& lead) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!lead.over() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return lead.over();
  }

  // The server's rows of shards: place among the shards that acknowledged commits, run, and number. It has no table of
  // other shards.
  void Hold(FakePostgres& server, const FakePostgres::Rows& stored) const {
    std::vector<std::string> missing = {first_.table, second_.table};
    for (const std::vector<std::string>& row : stored) missing[static_cast<size_t>(row[0] == "1")].clear();
    server.Answer([stored, missing](const std::string& sql) -> FakePostgres::Rows {
      FakePostgres::Rows tables;
      for (const std::vector<std::string>& row : stored) tables.push_back({row[0]});
      if (sql.find("to_regclass") != std::string::npos) return tables;
      for (const std::string& table : missing) {
        EXPECT_TRUE(table.empty() || sql.find(table) == std::string::npos) << "PostgreSQL fails " << sql;
      }
      return stored;
    });
  }

  const PostgresCommits first_{"\"p_0\".record", "commits 1", "run", 0, ""};
  const PostgresCommits second_{"\"p_1\".record", "commits 2", "run", 0, ""};
  const testing::TempDir dir_;
  std::chrono::milliseconds answer_timeout_ = std::chrono::hours(1);
  FakePostgres a_{Server(1, "1")}, b_{Server(1, "2"), /*standby=*/true}, c_{Server(1, "3"), /*standby=*/true};
};

// No server answers before all were asked: one after the other, none would.
TEST_F(PostgresServersTest, AllHostsAreAskedAtOnce) {
  std::latch asked(3);
  for (FakePostgres* host : {&a_, &b_, &c_}) host->OnStart([&] { asked.arrive_and_wait(); });
  const auto connection = Servers({&b_, &a_, &c_})->ConnectLeader();
  ASSERT_TRUE(connection.ok()) << connection.status();
  EXPECT_EQ((*connection)->host(), a_.name());
  EXPECT_EQ((*connection)->lead()->identity(), Server(1, "1"));
}

TEST_F(PostgresServersTest, AHostThatHangsIsAwaitedOnce) {
  b_.SetSilent(true);
  const auto servers = Servers({&b_, &a_}, 2);
  ASSERT_TRUE(servers->ConnectLeader().ok());
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(servers->ConnectLeader().ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20)) << "40 s if it is awaited each time";
  while (b_.started() < 21) std::this_thread::yield();  // it is asked each time
  b_.SetSilent(false);
  b_.Say(Server(2, "2"), /*standby=*/false);
  absl::StatusOr<std::unique_ptr<PostgresConnection>> moved;
  do moved = servers->ConnectLeader();
  while (moved.ok() && (*moved)->host() != b_.name());
  EXPECT_TRUE(moved.ok()) << moved.status();
}

// The watch looks at all hosts once an hour here: only those that hung are asked.
TEST_F(PostgresServersTest, AHostThatHungOnceIsFoundAsSoonAsItAnswers) {
  b_.SetSilent(true);
  const auto servers = Servers({&b_, &a_}, 1, /*watch=*/true, std::chrono::hours(1));
  const auto connection = servers->ConnectLeader().value();
  ASSERT_EQ(connection->host(), a_.name());
  b_.Say(Server(2, "2"), /*standby=*/false);
  b_.SetSilent(false);
  EXPECT_TRUE(Ends(*connection->lead()));
  EXPECT_THAT(connection->lead()->why(), HasSubstr(b_.name() + " writes on timeline 2"));
  EXPECT_EQ(servers->ConnectLeader().value()->host(), b_.name());
}

TEST_F(PostgresServersTest, EachAddressOfANameIsAServer) {
  const FakePostgres first(Server(1, "1"), false, "127.0.0.2");
  FakePostgres second(Server(1, "2"), true, "127.0.0.3", first.port());
  const auto servers = PostgresServers::Make({.url = absl::StrCat("user=u sslmode=disable gssencmode=disable host=db ",
                                                                  "connect_timeout=30 port=", first.port()),
                                              .answer_timeout = answer_timeout_,
                                              .look_every = std::chrono::milliseconds(20),
                                              .watch_every = std::chrono::milliseconds(20),
                                              .resolve =
                                                  [](const std::string& name) {
                                                    EXPECT_EQ(name, "db");
                                                    return std::vector<std::string>{"127.0.0.2", "127.0.0.3"};
                                                  }})
                           .value();
  const auto connection = servers->ConnectLeader().value();
  EXPECT_EQ(connection->host(), absl::StrCat("db(127.0.0.2):", first.port()));
  second.Say(Server(2, "2"), /*standby=*/false);
  EXPECT_TRUE(Ends(*connection->lead()));
  EXPECT_EQ(servers->ConnectLeader().value()->host(), absl::StrCat("db(127.0.0.3):", first.port()));
}

TEST_F(PostgresServersTest, ANameWithoutAddressesIsNamed) {
  const auto servers = PostgresServers::Make({.url = "user=u host=db port=5432",
                                              .watch = false,
                                              .resolve = [](const std::string&) { return std::vector<std::string>{}; }})
                           .value();
  const absl::Status rejected = servers->ConnectLeader().status();
  EXPECT_TRUE(absl::IsUnavailable(rejected)) << rejected;
  EXPECT_EQ(Text(rejected), "db:5432: the name does not resolve to an address");
}

// The address of a server that hangs leaves the name. It is asked for a while, and then no more.
TEST_F(PostgresServersTest, AHungServerThatTheNameNoLongerMeansIsForgotten) {
  const FakePostgres first(Server(1, "1"), false, "127.0.0.2");
  FakePostgres second(Server(1, "2"), true, "127.0.0.3", first.port());
  second.SetSilent(true);
  std::atomic<bool> left = false;
  const auto servers = PostgresServers::Make({.url = absl::StrCat("user=u sslmode=disable gssencmode=disable host=db ",
                                                                  "connect_timeout=1 port=", first.port()),
                                              .answer_timeout = answer_timeout_,
                                              .look_every = std::chrono::milliseconds(20),
                                              .watch_every = std::chrono::milliseconds(20),
                                              .hung_for = std::chrono::seconds(1),
                                              .resolve =
                                                  [&](const std::string&) {
                                                    return left ? std::vector<std::string>{"127.0.0.2"}
                                                                : std::vector<std::string>{"127.0.0.2", "127.0.0.3"};
                                                  }})
                           .value();
  ASSERT_TRUE(servers->ConnectLeader().ok());
  ASSERT_GE(second.started(), 1);
  left = true;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (int asked = -1; asked != second.started() && std::chrono::steady_clock::now() < end;) {
    asked = second.started();
    std::this_thread::sleep_for(std::chrono::seconds(3));  // three of the surveys that ask it
  }
  EXPECT_LT(std::chrono::steady_clock::now(), end) << "it is asked forever";
}

// A standby follows a primary that this process never saw.
TEST_F(PostgresServersTest, TheTimelineOfAStandbyIsRemembered) {
  a_.Say(Server(4, "1"), /*standby=*/false);
  b_.Say(Server(5, "2"), /*standby=*/true);
  const auto servers = Servers({&a_, &b_});
  EXPECT_TRUE(absl::IsUnavailable(servers->ConnectLeader().status()));
  b_.Stop();
  for (const auto& asked : {servers, Servers({&a_, &b_})}) {  // this process, and another one after it
    const absl::Status rejected = asked->ConnectLeader().status();
    EXPECT_TRUE(absl::IsUnavailable(rejected));
    EXPECT_THAT(Text(rejected), AllOf(HasSubstr(a_.name() + " writes on the old timeline 4"),
                                      HasSubstr("timeline 5 was seen at " + b_.name())));
  }
}

TEST_F(PostgresServersTest, ARejectedServerDoesNotLeadAgain) {
  b_.Say(Server(1, "2"), /*standby=*/false);
  a_.Stop();
  const auto servers = Servers({&a_, &b_});
  const auto connection = servers->ConnectLeader().value();
  servers->Reject(*connection->lead(), "b lacks commit 7");
  EXPECT_TRUE(connection->broken());
  EXPECT_THAT(Text(servers->ConnectLeader().status()), HasSubstr("b lacks commit 7"));
  EXPECT_THAT(Text(servers->ConnectSame().status()), HasSubstr("b lacks commit 7"));
  a_.Start();
  EXPECT_EQ(servers->ConnectLeader().value()->host(), a_.name());
  a_.Stop();
  b_.Say(Server(1, "3"), /*standby=*/false);
  EXPECT_EQ(servers->ConnectLeader().value()->host(), b_.name()) << "it was started again, and may have it now";
}

// Two shards have acknowledged commits. Whichever connects first, the server must have those of both.
TEST_F(PostgresServersTest, AServerThatLacksACommitOfOneShardLeadsForNone) {
  const auto servers = Servers({&a_, &b_, &c_});
  const auto writer = servers->ConnectLeader().value();
  ASSERT_EQ(servers->Acknowledge(*writer->lead(), first_, 3), absl::OkStatus());
  ASSERT_EQ(servers->Acknowledge(*writer->lead(), second_, 5), absl::OkStatus());
  a_.Stop();
  b_.Say(Server(2, "2"), /*standby=*/false);
  Hold(b_, {{"0", "run", "3"}, {"1", "run", "4"}});
  const absl::Status rejected = servers->ConnectLeader().status();
  EXPECT_TRUE(absl::IsUnavailable(rejected)) << rejected;
  EXPECT_THAT(Text(rejected),
              AllOf(HasSubstr(b_.name() + " (timeline 2) is missing acknowledged records of \"p_1\""),
                    HasSubstr("it has 4 of this process's commits, and commit 5 was acknowledged by " + a_.name())));
  EXPECT_TRUE(servers->lead()->must_commit());
  EXPECT_FALSE(servers->lead()->leads());
  EXPECT_THAT(Text(servers->ConnectSame().status()), HasSubstr("is missing acknowledged records")) << "nor is it read";
  EXPECT_THAT(Text(servers->ConnectLeader().status()), HasSubstr("is missing acknowledged records"));
  c_.Say(Server(2, "3"), /*standby=*/false);
  Hold(c_, {{"1", "run", "6"}, {"0", "run", "3"}});  // the last one without an answer
  EXPECT_EQ(servers->ConnectLeader().value()->host(), c_.name());
}

TEST_F(PostgresServersTest, AServerWithoutATableOfAShardIsRejectedByName) {
  const auto servers = Servers({&a_, &b_});
  const auto writer = servers->ConnectLeader().value();
  ASSERT_EQ(servers->Acknowledge(*writer->lead(), first_, 3), absl::OkStatus());
  ASSERT_EQ(servers->Acknowledge(*writer->lead(), second_, 5), absl::OkStatus());
  b_.Say(Server(2, "2"), /*standby=*/false);
  Hold(b_, {{"0", "run", "3"}});
  const absl::Status rejected = servers->ConnectLeader().status();
  EXPECT_TRUE(absl::IsUnavailable(rejected)) << rejected;
  EXPECT_THAT(Text(rejected), AllOf(HasSubstr(b_.name() + " (timeline 2) is missing acknowledged records of \"p_1\""),
                                    HasSubstr("it has 0 of this process's commits")));
}

TEST_F(PostgresServersTest, AShardThatIsClosedOrAnotherRunsIsNotMissed) {
  const auto servers = Servers({&a_, &b_});
  const auto writer = servers->ConnectLeader().value();
  ASSERT_EQ(servers->Acknowledge(*writer->lead(), first_, 3), absl::OkStatus());
  ASSERT_EQ(servers->Acknowledge(*writer->lead(), second_, 5), absl::OkStatus());
  Hold(a_, {{"0", "another", ""}, {"1", "run", "5"}});
  EXPECT_TRUE(servers->ConnectLeader().ok());
  servers->Forget(second_.key);
  Hold(a_, {{"0", "run", "3"}});
  EXPECT_TRUE(servers->ConnectLeader().ok());
}

// Its successor was checked without the commit.
TEST_F(PostgresServersTest, AServerThatWasLeftAcknowledgesNothing) {
  const auto servers = Servers({&a_, &b_});
  const auto before = servers->ConnectLeader().value();
  b_.Say(Server(2, "2"), /*standby=*/false);
  ASSERT_EQ(servers->ConnectLeader().value()->host(), b_.name());
  const absl::Status late = servers->Acknowledge(*before->lead(), first_, 1);
  EXPECT_TRUE(absl::IsUnavailable(late)) << late;
  EXPECT_THAT(Text(late), HasSubstr(a_.name() + " (timeline 1) is no longer used"));
  EXPECT_TRUE(servers->ConnectLeader().ok()) << "it was not acknowledged, so nothing is missing";
}

TEST_F(PostgresServersTest, WhoDidNotAnswerIsNamed) {
  a_.SetSilent(true);
  c_.Stop();
  const absl::Status rejected = Servers({&a_, &b_, &c_}, 1)->ConnectLeader().status();
  EXPECT_TRUE(absl::IsUnavailable(rejected));
  EXPECT_THAT(Text(rejected), AllOf(HasSubstr(b_.name() + " is a standby"),
                                    HasSubstr(a_.name() + " did not respond within 1 s"), HasSubstr(c_.host())));
}

// The old primary is first in the url, and answers.
TEST_F(PostgresServersTest, AnUnfencedPrimaryIsRejectedByName) {
  const auto servers = Servers({&a_, &b_});
  const auto before = servers->ConnectLeader().value();
  b_.Say(Server(2, "2"), /*standby=*/false);
  const auto moved = servers->ConnectLeader().value();
  EXPECT_EQ(moved->host(), b_.name());
  EXPECT_TRUE(before->broken()) << "of no use any more";
  EXPECT_TRUE(absl::IsUnavailable(before->Execute("select 1").status()));
  EXPECT_THAT(Text(before->Execute("select 1").status()), AllOf(HasSubstr(a_.name()), HasSubstr(b_.name())));
  b_.Stop();
  for (const auto& asked : {servers, Servers({&a_, &b_})}) {  // this process, and another one after it
    const absl::Status rejected = asked->ConnectLeader().status();
    EXPECT_TRUE(absl::IsUnavailable(rejected));
    EXPECT_THAT(Text(rejected), AllOf(HasSubstr(a_.name() + " writes on the old timeline 1"),
                                      HasSubstr("timeline 2 was seen at " + b_.name())));
  }
}

TEST_F(PostgresServersTest, ReadersConnectToTheWritersServerAlone) {
  const auto servers = Servers({&a_, &b_});
  EXPECT_TRUE(absl::IsUnavailable(servers->ConnectSame().status())) << "there is no writer yet";
  const auto writer = servers->ConnectLeader().value();
  EXPECT_EQ(servers->ConnectSame().value()->lead(), writer->lead());
  EXPECT_EQ(b_.started(), 1);
  a_.Say(Server(1, "9"), /*standby=*/false);  // another start of it
  const absl::Status rejected = servers->ConnectSame().status();
  EXPECT_TRUE(absl::IsUnavailable(rejected));
  EXPECT_THAT(Text(rejected), HasSubstr("is now a different server than"));
  a_.Say(Server(1, "1"), /*standby=*/false);
  b_.Say(Server(2, "2"), /*standby=*/false);
  const auto moved = servers->ConnectLeader().value();
  EXPECT_EQ(servers->ConnectSame().value()->host(), b_.name());
}

// A statement would wait for an hour on a server that was replaced. The watch sees the other one.
TEST_F(PostgresServersTest, AStatementEndsOnceAnotherServerLeads) {
  const auto servers = Servers({&a_, &b_}, 1, /*watch=*/true);
  const auto connection = servers->ConnectLeader().value();
  a_.SetSilent(true);
  std::atomic<int> asked{0};
  b_.OnStart([&] {  // it is promoted while the statement waits
    if (++asked == 2) b_.Say(Server(2, "2"), /*standby=*/false);
  });
  const absl::Status left = connection->Execute("hang").status();
  EXPECT_TRUE(absl::IsUnavailable(left));
  EXPECT_THAT(Text(left), HasSubstr(b_.name() + " writes on timeline 2"));
  EXPECT_EQ(servers->ConnectLeader().value()->host(), b_.name());
}

TEST_F(PostgresServersTest, AServerThatHangsCostsItsTimeOnce) {
  answer_timeout_ = std::chrono::milliseconds(300);
  const auto servers = Servers({&a_, &b_});
  const auto writer = servers->ConnectLeader().value();
  const auto reader = servers->ConnectSame().value();
  EXPECT_THAT(Text(writer->Execute("hang").status()), HasSubstr(a_.name() + " did not respond within 0.3 s"));
  EXPECT_TRUE(reader->broken()) << "it need not wait for the same server";
  EXPECT_FALSE(servers->ConnectLeader().value()->broken()) << "it answers again";
}

}  // namespace
}  // namespace ingot::datapool
