// How the roles of a run find each other by name, over real connections and a local registry.
#include "app/cluster/run_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <thread>
#include <vector>

#include "app/cluster/access/grpc_server.h"
#include "app/cluster/node_clocks.h"
#include "app/cluster/takeover.h"
#include "base/mutex.h"
#include "datapool/grpc_client.h"
#include "proto/datapool.grpc.pb.h"
#include "proto/grpc_status.h"

namespace ingot::app {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A pool that tells its number, and answers once it may.
class NumberedPool final : public v1::DataPool::Service {
 public:
  NumberedPool(int number, const std::atomic<bool>& may_answer, std::atomic<int>& asked)
      : number_(number), may_answer_(may_answer), asked_(asked) {}
  grpc::Status Status(grpc::ServerContext*, const v1::PoolStatusRequest*, v1::PoolStatusResponse* response) override {
    ++asked_;
    while (!may_answer_) std::this_thread::sleep_for(milliseconds(1));
    response->set_journal_end(number_);
    return grpc::Status::OK;
  }

 private:
  const int number_;
  const std::atomic<bool>& may_answer_;
  std::atomic<int>& asked_;
};

class RunRegistryTest : public ::testing::Test {
 protected:
  RunRegistryTest() {
    std::string pattern = std::filesystem::temp_directory_path().string() + "/ingot-run-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    config_.name = "run";
    config_.cluster.registry.ttl_s = 2;
    access_.token = "the-token-of-this-run-0123456789";
    caller_ = Open();
    EXPECT_TRUE(caller_->Follow().ok());
  }
  ~RunRegistryTest() override {
    may_answer_ = true;
    pool_.reset();
    caller_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::unique_ptr<RunRegistry> Open(const base::Clock& clock = base::Clock::Real()) {
    auto opened = RunRegistry::Open(config_, folder_, access_, clock);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *std::move(opened);
  }
  // A process that serves the pool.
  struct Process {
    std::unique_ptr<GrpcServer> server;
    std::unique_ptr<RunRegistry> registry;
  };
  Process Serve(int number, const std::string& name = "datapool") {
    Process process;
    std::vector<std::unique_ptr<grpc::Service>> services;
    services.push_back(std::make_unique<NumberedPool>(number, may_answer_, asked_));
    process.server = *GrpcServer::Start("127.0.0.1:0", std::move(services), access_);
    process.registry = Open();
    const absl::Status registered =
        process.registry->Register(name, absl::StrCat("127.0.0.1:", process.server->port()));
    EXPECT_TRUE(registered.ok()) << registered;
    return process;
  }
  void Connect() { pool_ = datapool::NewGrpcClient(caller_->To("datapool"), seconds(30)); }
  // The number of the pool that answers; -1 = none did.
  int Ask() {
    const auto status = pool_->Status();
    EXPECT_TRUE(status.ok()) << status.status();
    return status.ok() ? static_cast<int>(status->journal_end()) : -1;
  }

  std::string folder_;
  RunConfig config_;
  RpcAccess access_;
  std::atomic<bool> may_answer_ = true;
  std::atomic<int> asked_ = 0;
  std::unique_ptr<RunRegistry> caller_;
  std::unique_ptr<datapool::Client> pool_;
};

TEST_F(RunRegistryTest, ARoleIsFoundByItsName) {
  const Process process = Serve(1);
  Connect();
  EXPECT_EQ(Ask(), 1);
}

TEST_F(RunRegistryTest, ACallWaitsForARoleThatIsYetToRegister) {
  Connect();
  std::atomic<int> answer = 0;
  std::thread asking([&] { answer = Ask(); });
  const Process process = Serve(1);
  asking.join();
  EXPECT_EQ(answer, 1);
}

TEST_F(RunRegistryTest, ACallThatDoesNotWaitIsToldWhichRoleIsMissing) {
  const auto stub = v1::DataPool::NewStub(caller_->To("datapool").Now());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + seconds(20));
  v1::PoolStatusResponse response;
  const grpc::Status status = stub->Status(&context, {}, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("the role datapool is not registered in the registry in"));
}

TEST_F(RunRegistryTest, ACallToADeadPlaceGoesToTheNewOne) {
  Process first = Serve(1);
  Connect();
  EXPECT_EQ(Ask(), 1);
  first.server.reset();
  std::atomic<int> answer = 0;
  std::thread asking([&] { answer = Ask(); });
  const Process second = Serve(2);
  asking.join();
  EXPECT_EQ(answer, 2);
  EXPECT_EQ(Ask(), 2);
}

TEST_F(RunRegistryTest, ACallThatRunsAtThePlaceThatWasLeftIsMadeAgain) {
  may_answer_ = false;
  const Process first = Serve(1);
  Connect();
  std::atomic<int> answer = 0;
  std::thread asking([&] { answer = Ask(); });
  while (asked_ == 0) std::this_thread::yield();
  Process second = Serve(2);
  while (asked_ == 1) std::this_thread::yield();  // the second place is asked though the first still holds the call
  may_answer_ = true;
  asking.join();
  EXPECT_EQ(answer, 2);
}

TEST_F(RunRegistryTest, OfSeveralProcessesOneStandsInForAnother) {
  auto first = std::make_optional(Serve(1, "datapool")), second = std::make_optional(Serve(2, "datapool-1"));
  const auto pool = datapool::NewGrpcClient(caller_->ToAny({"datapool-1", "datapool"}), seconds(30));
  const auto ask = [&] {
    const auto status = pool->Status();
    EXPECT_TRUE(status.ok()) << status.status();
    return status.ok() ? static_cast<int>(status->journal_end()) : -1;
  };
  while (ask() != 2) std::this_thread::yield();  // until the caller knows of both
  EXPECT_EQ(ask(), 2) << "it stays where it is";
  may_answer_ = false;
  asked_ = 0;
  std::atomic<int> answer = 0;
  std::thread asking([&] { answer = ask(); });
  while (asked_ == 0) std::this_thread::yield();
  second->registry.reset();  // as at the end of its lease: the process is stopped, and holds the call
  while (asked_ == 1) std::this_thread::yield();
  may_answer_ = true;
  asking.join();
  EXPECT_EQ(answer, 1);
  EXPECT_EQ(ask(), 1);
  second.reset();
  const Process again = Serve(3, "datapool-1");
  first.reset();
  EXPECT_EQ(ask(), 3) << "the one that came back at another place";
}

TEST_F(RunRegistryTest, ReportsOfEachRoleOfAKindOnce) {
  const std::unique_ptr<RunRegistry> early = Open(), late = Open();
  ASSERT_TRUE(early->Register("rollout-0", "127.0.0.1:1").ok());
  base::Mutex mu;
  std::vector<std::string> reported;
  const auto all_reported = [&](size_t count) {
    base::MutexLock lock(mu);
    return reported.size() >= count;
  };
  caller_->OnRole("rollout", [&](const std::string& name) {
    base::MutexLock lock(mu);
    reported.push_back(name);
  });
  while (!all_reported(1)) std::this_thread::yield();
  ASSERT_TRUE(late->Register("gateway", "127.0.0.1:2", "127.0.0.1:80").ok());
  ASSERT_TRUE(late->Register("rollout-7", "127.0.0.1:3").ok());
  ASSERT_TRUE(early->Register("rollout-0", "127.0.0.1:4").ok()) << "at another place";
  while (!all_reported(2)) std::this_thread::yield();
  base::MutexLock lock(mu);
  EXPECT_THAT(reported, testing::ElementsAre("rollout-0", "rollout-7"));
  const auto places = caller_->Places();
  ASSERT_TRUE(places.ok());
  EXPECT_EQ(places->front().name, "gateway");
  EXPECT_EQ(places->front().http, "127.0.0.1:80");
}

TEST_F(RunRegistryTest, TheNextLeaderOfARoleHasALargerToken) {
  const std::unique_ptr<RunRegistry> first = Open(), second = Open();
  const auto earlier = first->Lead("scheduler");
  ASSERT_TRUE(earlier.ok()) << earlier.status();
  const auto later = second->Lead("scheduler");
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_GT(*later, *earlier);
}

TEST_F(RunRegistryTest, ListsTheRolesThatAreThere) {
  const Process pool = Serve(1);
  {
    const auto engine = Open();
    ASSERT_TRUE(engine->Register(RoleName("rollout", 0), "10.0.0.7:4321").ok());
    std::vector<std::string> shown;
    const std::vector<RolePlace> places = *caller_->Places();
    for (const RolePlace& place : places) {
      shown.push_back(place.name);
      EXPECT_EQ(place.pid, getpid());
      EXPECT_FALSE(place.node.empty());
    }
    EXPECT_THAT(shown, ElementsAre("datapool", "rollout-0"));
    EXPECT_EQ(places.back().address, "10.0.0.7:4321");
  }
  EXPECT_EQ(caller_->Places()->size(), 1);
}

TEST_F(RunRegistryTest, NamesTheRpcsThatGoOnAndWhy) {
  const auto calls = [&] { return caller_->LongCalls(milliseconds(0)); };
  Connect();
  std::thread asking([&] { Ask(); });
  while (calls().empty()) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_THAT(calls(), ElementsAre("datapool (Status: not registered)"));
  EXPECT_THAT(caller_->LongCalls(std::chrono::hours(1)), ElementsAre());
  may_answer_ = false;
  const Process process = Serve(1);
  while (asked_ == 0) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_THAT(calls(), ElementsAre("datapool (Status)")) << "it is there, and takes its time";
  may_answer_ = true;
  asking.join();
  EXPECT_THAT(calls(), ElementsAre());
}

TEST_F(RunRegistryTest, ReportsForWhomAProcessWaits) {
  const auto waits = [&]() -> std::string {
    const std::vector<RolePlace> places = *caller_->Places();
    for (const RolePlace& place : places) {
      if (place.name == "scheduler") return place.waits;
    }
    return "the scheduler is gone";
  };
  caller_->ReportWaits("a disk");  // before it has an entry
  ASSERT_TRUE(caller_->Register("scheduler", "127.0.0.1:1").ok());
  while (waits() != "a disk") std::this_thread::sleep_for(milliseconds(5));
  caller_->ReportWaits("");
  while (!waits().empty()) std::this_thread::sleep_for(milliseconds(5));
}

TEST_F(RunRegistryTest, KnowsTheLastPlacesOfRoles) {
  EXPECT_EQ(caller_->LastPlaces().size(), 0);
  {
    const Process process = Serve(1);
    while (caller_->LastPlaces().empty()) std::this_thread::sleep_for(milliseconds(5));
    EXPECT_EQ(caller_->LastPlaces()[0].name, "datapool");
    EXPECT_EQ(caller_->LastPlaces()[0].address, caller_->Places()->at(0).address);
    process.registry->ReportWaits("a disk");
    while (caller_->LastPlaces()[0].waits != "a disk") std::this_thread::sleep_for(milliseconds(5));
  }
  while (!caller_->LastPlaces().empty()) std::this_thread::sleep_for(milliseconds(5));
}

TEST_F(RunRegistryTest, ReportsWhichNodesRunWhat) {
  const auto node = Open();
  ASSERT_TRUE(node->RegisterNode("engines-0", "", milliseconds(0)).ok());
  node->UpdateNodes("rollout-0, rollout-1 (NOT RUNNING)");
  std::vector<NodePlace> nodes = *caller_->Nodes();
  while (nodes.size() == 1 && nodes[0].roles.empty()) nodes = *caller_->Nodes();
  ASSERT_EQ(nodes.size(), 1);
  EXPECT_EQ(nodes[0].name, "engines-0");
  EXPECT_EQ(nodes[0].machine, MachineName());
  EXPECT_EQ(nodes[0].roles, "rollout-0, rollout-1 (NOT RUNNING)");
  const absl::Status second = Open()->RegisterNode("engines-0", "", milliseconds(0));
  EXPECT_TRUE(absl::IsFailedPrecondition(second)) << second;
  EXPECT_THAT(std::string(second.message()),
              AllOf(HasSubstr(absl::StrCat("is another process's: process ", getpid(), " on ", MachineName(),
                                           "; this node can start again once that process has ended")),
                    Not(HasSubstr("{"))));
}

TEST(DescribeTaken, IsASentence) {
  EXPECT_EQ(
      DescribeTaken("the agent of node front-0", "{\"node\":\"box\",\"pid\":4711,\"roles\":\"gateway\",\"told\":17}",
                    10),
      "process 4711 on box is now the agent of node front-0, because this process was silent for longer than 10 s "
      "(cluster.registry.ttl_s); this process exits and stops everything that it started");
  for (const char* other : {"", "{", "{}", "[]"}) {
    EXPECT_THAT(DescribeTaken("the launcher", other, 2.5),
                ::testing::StartsWith("another process is now the launcher"));
  }
}

// Polls until roles arrive, or `time_limit` is over.
std::vector<std::string> ArrivedWithin(Takeover& takeover, milliseconds time_limit) {
  std::vector<std::string> names;
  const auto end = std::chrono::steady_clock::now() + time_limit;
  while (names.empty() && std::chrono::steady_clock::now() < end) {
    for (const RoleSpec& spec : takeover.Arrived()) names.push_back(spec.name);
    std::this_thread::sleep_for(milliseconds(5));
  }
  return names;
}

RoleSpec Named(const std::string& name) {
  RoleSpec spec;
  spec.name = name;
  return spec;
}

TEST_F(RunRegistryTest, TheRolesOfADeadNodeMoveOnceAndForGood) {
  auto front = Open();
  ASSERT_TRUE(front->RegisterNode("front-0", "", milliseconds(0)).ok());
  Takeover takeover(Seats::Nodes(*caller_),
                    {{"front-0", {Named("gateway"), Named("scheduler")}}, {"never-0", {Named("agents")}}},
                    {.grace = milliseconds(300), .poll = milliseconds(10)});
  EXPECT_THAT(ArrivedWithin(takeover, milliseconds(600)), ElementsAre()) << "its agent is there";
  front.reset();
  EXPECT_THAT(ArrivedWithin(takeover, seconds(30)), ElementsAre("gateway", "scheduler"));
  const absl::Status back = Open()->RegisterNode("front-0", "", milliseconds(0));
  EXPECT_TRUE(absl::IsFailedPrecondition(back));
  EXPECT_THAT(std::string(back.message()), HasSubstr("has taken over its roles"));
  EXPECT_THAT(ArrivedWithin(takeover, milliseconds(500)), ElementsAre());
}

TEST_F(RunRegistryTest, ANodeThatComesBackInTimeKeepsItsRoles) {
  auto front = Open();
  ASSERT_TRUE(front->RegisterNode("front-0", "", milliseconds(0)).ok());
  Takeover takeover(Seats::Nodes(*caller_), {{"front-0", {Named("gateway")}}},
                    {.grace = seconds(60), .poll = milliseconds(10)});
  front.reset();
  EXPECT_THAT(ArrivedWithin(takeover, milliseconds(100)), ElementsAre());
  front = Open();
  EXPECT_TRUE(front->RegisterNode("front-0", "", milliseconds(0)).ok());
}

TEST_F(RunRegistryTest, TheEnginesOfADeadNodeMoveToNodesWithRoom) {
  auto dead = Open(), other = Open();
  const std::vector<std::string> engines = {"rollout-0", "rollout-1", "rollout-2"};
  std::vector<Takeover::Seat> seats;
  for (const std::string& engine : engines) {
    ASSERT_TRUE(dead->ClaimEngine(engine, milliseconds(0)).ok());
    seats.push_back({engine, {Named(engine)}});
  }
  Takeover::Options options{.grace = milliseconds(300), .poll = milliseconds(10), .most = 1};
  Takeover small(Seats::Engines(*caller_), seats, options);
  EXPECT_THAT(ArrivedWithin(small, milliseconds(600)), ElementsAre()) << "their node is there";
  dead.reset();
  const std::vector<std::string> first = ArrivedWithin(small, seconds(30));
  ASSERT_EQ(first.size(), 1U);
  EXPECT_THAT(ArrivedWithin(small, milliseconds(600)), ElementsAre()) << "it has no more room";

  EXPECT_TRUE(absl::IsAlreadyExists(Open()->ClaimEngine(first[0], milliseconds(0)))) << "its node comes back";
  EXPECT_THAT(caller_->ClaimedEngines().value(), ElementsAre(first[0]));
  std::vector<std::string> rest;
  for (const std::string& engine : engines) {
    if (engine != first[0]) rest.push_back(engine);
  }
  auto back = Open();  // the others are started again by hand, and their node dies too
  for (const std::string& engine : rest) ASSERT_TRUE(back->ClaimEngine(engine, milliseconds(0)).ok());
  options.most = 2;
  Takeover large(Seats::Engines(*other), seats, options);
  EXPECT_THAT(ArrivedWithin(large, milliseconds(200)), ElementsAre());
  back.reset();
  std::vector<std::string> moved = ArrivedWithin(large, seconds(30));
  for (const std::string& engine : ArrivedWithin(large, moved.size() < 2 ? seconds(30) : seconds(0))) {
    moved.push_back(engine);
  }
  EXPECT_EQ(moved, rest);
}

// A node of a run, with the clock of its machine.
struct ClockedNode {
  ClockedNode(std::unique_ptr<RunRegistry> opened, const std::string& name, const base::Clock& clock)
      : registry(std::move(opened)) {
    EXPECT_TRUE(registry->RegisterNode(name, "", milliseconds(0)).ok());
    NodeClocks::Options options;
    options.own = name;
    options.poll = milliseconds(5);
    options.report_again = [this] { registry->UpdateNodes("roles"); };
    options.on_gap = [this](const std::string& line) {
      base::MutexLock lock(mu);
      lines.push_back(line);
    };
    clocks = std::make_unique<NodeClocks>(*registry, std::move(options), clock);
  }
  size_t found() {
    base::MutexLock lock(mu);
    return lines.size();
  }
  std::unique_ptr<RunRegistry> registry;
  base::Mutex mu;
  std::vector<std::string> lines ABSL_GUARDED_BY(mu);
  std::unique_ptr<NodeClocks> clocks;
};

// The first node told its time when it began, an hour ago: only what it tells anew shows that its clock is ahead.
TEST_F(RunRegistryTest, ANodeWhoseClockIsBehindDoesNotJoin) {
  base::ManualClock ahead(seconds(1'000'063)), behind(seconds(1'000'000));
  ClockedNode control(Open(ahead), "control-0", ahead);
  EXPECT_TRUE(control.clocks->Join(seconds(30), seconds(30)).ok()) << "nobody else is there";
  ahead.Advance(std::chrono::hours(1));
  behind.Advance(std::chrono::hours(1));
  ClockedNode engines(Open(behind), "engines-0", behind);
  const absl::Status rejected = engines.clocks->Join(milliseconds(500), milliseconds(500));
  EXPECT_TRUE(absl::IsFailedPrecondition(rejected)) << rejected;
  EXPECT_THAT(std::string(rejected.message()),
              HasSubstr(absl::StrCat(MachineName(), " (node engines-0) is at least 63.0 s behind the clock of ",
                                     MachineName(), " (node control-0)")));
  EXPECT_EQ(control.found() + engines.found(), 0U);
}

TEST_F(RunRegistryTest, NodesWhoseClocksDifferALittleJoin) {
  const base::ManualClock ahead(seconds(1'000'004)), behind(seconds(1'000'000));
  ClockedNode control(Open(ahead), "control-0", ahead);
  ASSERT_TRUE(control.clocks->Join(seconds(30), seconds(30)).ok());
  ClockedNode engines(Open(behind), "engines-0", behind);
  EXPECT_TRUE(engines.clocks->Join(milliseconds(200), seconds(30)).ok());
}

// The agent of control-0 died; its machine's clock has been set since.
TEST_F(RunRegistryTest, TheEntryOfADeadAgentWithAnotherClockHasItsLeaseToGo) {
  const base::ManualClock ahead(seconds(1'000'063)), behind(seconds(1'000'000));
  ClockedNode control(Open(ahead), "control-0", ahead);
  control.clocks.reset();
  ClockedNode engines(Open(behind), "engines-0", behind), others(Open(behind), "engines-1", behind);
  auto joined = std::async(std::launch::async, [&] { return engines.clocks->Join(milliseconds(5), seconds(30)); });
  EXPECT_TRUE(absl::IsFailedPrecondition(others.clocks->Join(milliseconds(5), milliseconds(500))))
      << "an entry that stays is of an agent that lives";
  EXPECT_EQ(joined.wait_for(milliseconds(0)), std::future_status::timeout);
  control.registry.reset();
  const absl::Status status = joined.get();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(RunRegistryTest, ANodeThatIsThereSaysOnceThatOneAheadHasJoined) {
  base::ManualClock ahead(seconds(1'000'063)), behind(seconds(1'000'000));
  ClockedNode control(Open(behind), "control-0", behind);
  ASSERT_TRUE(control.clocks->Join(seconds(30), seconds(30)).ok());
  ClockedNode engines(Open(ahead), "engines-0", ahead);
  EXPECT_TRUE(engines.clocks->Join(milliseconds(200), seconds(30)).ok()) << "its own clock seems to be right";
  const auto end = std::chrono::steady_clock::now() + seconds(30);
  while (control.found() == 0 && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(milliseconds(2));
  std::this_thread::sleep_for(milliseconds(50));
  control.clocks.reset();
  base::MutexLock lock(control.mu);
  EXPECT_THAT(control.lines, ElementsAre(HasSubstr("(node control-0) is at least 63.0 s behind")));
  EXPECT_EQ(engines.found(), 0U);
}

TEST_F(RunRegistryTest, OneLauncherAtATimeDrivesARun) {
  auto first = Open();
  ASSERT_TRUE(first->ClaimRun().ok());
  const auto second = Open();
  const absl::Status rejected = second->ClaimRun();
  EXPECT_TRUE(absl::IsFailedPrecondition(rejected)) << rejected;
  EXPECT_THAT(std::string(rejected.message()), HasSubstr("'run' is already launched"));
  first.reset();
  EXPECT_TRUE(second->ClaimRun().ok());
}

TEST_F(RunRegistryTest, ARegistryThatIsNotThereIsOneError) {
  config_.cluster.registry.kind = RegistryKind::kEtcd;
  config_.cluster.registry.endpoints = {"127.0.0.1:1"};
  config_.cluster.registry.user = "ingot";
  config_.cluster.registry.password_file = folder_ + "/none";
  const absl::Status unread = RunRegistry::Open(config_, folder_, access_).status();
  EXPECT_THAT(std::string(unread.message()), HasSubstr("cluster.registry.password_file"));
}

}  // namespace
}  // namespace ingot::app
