// Who may call a role: every service and method of the project's, over real connections, in plain text and in TLS.
#include "app/cluster/access/grpc_access.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "app/cluster/access/grpc_server.h"
#include "app/unused_scheduler.h"
#include "datapool/service.h"
#include "gateway/fakes.h"
#include "gateway/service.h"
#include "proto/datapool.grpc.pb.h"
#include "proto/gateway.grpc.pb.h"
#include "proto/grpc_status.h"
#include "proto/rollout.grpc.pb.h"
#include "proto/scheduler.grpc.pb.h"
#include "rollout/engine/service.h"
#include "rollout/rig.h"
#include "scheduler/service.h"
#include "test_paths.h"

namespace ingot::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kToken[] = "the-token-of-this-run-0123456789";

RpcAccess WithToken(const std::string& token) {
  RpcAccess access;
  access.token = token;
  return access;
}

// All roles' services behind one listener.
struct Roles {
  explicit Roles(RpcAccess access = WithToken(kToken)) {
    std::vector<std::unique_ptr<grpc::Service>> services;
    services.push_back(datapool::NewDataPoolService(world.pool));
    services.push_back(scheduler::NewSchedulerService(scheduler));
    services.push_back(rollout::NewRolloutService(*rig.engine));
    services.push_back(gateway::NewGatewayService(world.gateway()));
    auto started = GrpcServer::Start("127.0.0.1:0", std::move(services), access);
    EXPECT_TRUE(started.ok()) << started.status();
    server = *std::move(started);
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", server->port()); }

  gateway::World world{[](const auto&) { return gateway::Script{}; }};
  UnusedScheduler scheduler;
  rollout::Rig rig;
  std::unique_ptr<GrpcServer> server;
};

// "/ingot.v1.DataPool/AppendCall" and so on: each method of every service that the project's files declare.
std::vector<std::string> AllMethods() {
  std::vector<std::string> methods;
  for (const google::protobuf::FileDescriptor* file :
       {v1::PoolStatusRequest::descriptor()->file(), v1::SchedulerStatusRequest::descriptor()->file(),
        v1::EngineStatusRequest::descriptor()->file(), v1::GatewayStatusRequest::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        methods.push_back(absl::StrCat("/", file->service(s)->full_name(), "/", file->service(s)->method(m)->name()));
      }
    }
  }
  return methods;
}

// An rpc with one empty message, of any method. A stream's server sees that message and then the end.
grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                  const std::multimap<std::string, std::string>& metadata = {}) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  for (const auto& [name, value] : metadata) context.AddMetadata(name, value);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  grpc::CompletionQueue queue;
  const grpc::Slice nothing;
  grpc::ByteBuffer answer;
  const auto rpc = stub.PrepareUnaryCall(&context, method, grpc::ByteBuffer(&nothing, 1), &queue);
  rpc->StartCall();
  grpc::Status status;
  rpc->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status;
}

TEST(GrpcAccess, EveryMethodOfEveryServiceAsksForTheToken) {
  Roles roles;
  const std::vector<std::string> methods = AllMethods();
  EXPECT_GE(methods.size(), 30u);
  const auto right = Connect(roles.address(), WithToken(kToken));
  for (const std::string wrong : {"", "the-token-of-this-run-012345678", "the-token-of-this-run-0123456788", "x"}) {
    const auto channel = Connect(roles.address(), WithToken(wrong));
    for (const std::string& method : methods) {
      const grpc::Status rejected = Call(channel, method);
      EXPECT_EQ(rejected.error_code(), grpc::StatusCode::UNAUTHENTICATED) << method << ": " << rejected.error_message();
      // Who, where, and what to do.
      EXPECT_THAT(rejected.error_message(), HasSubstr("the role at " + roles.address() + " rejects this process"));
      EXPECT_THAT(rejected.error_message(), HasSubstr(wrong.empty() ? "has no token" : "is not this run's"));
      EXPECT_THAT(rejected.error_message(), HasSubstr("cluster.token_file"));
    }
    EXPECT_EQ(Call(channel, "/ingot.v1.Unknown/Method").error_code(), grpc::StatusCode::UNAUTHENTICATED);
  }
  for (const std::string& method : methods) {
    // The service answers, if only that the message is empty.
    EXPECT_THAT(Call(right, method).error_message(), Not(HasSubstr("rejects this process"))) << method;
  }
  EXPECT_EQ(Call(right, "/ingot.v1.Unknown/Method").error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

// A client that is none of ours: without the interceptor.
TEST(GrpcAccess, AStrangerEndsNoEpisode) {
  Roles roles;
  const auto stranger = grpc::CreateChannel(roles.address(), grpc::InsecureChannelCredentials());
  v1::StoreEndRequest end;
  end.set_episode_id(roles.world.Open().episode_id());
  end.set_state(v1::EPISODE_FINISHED);
  end.set_reward(777);
  for (const char* token : {"", "guess", "the-token-of-this-run-0123456788"}) {
    grpc::ClientContext context;
    if (*token != '\0') context.AddMetadata("ingot-token", token);
    v1::StoreEndResponse response;
    const grpc::Status rejected = v1::DataPool::NewStub(stranger)->StoreEnd(&context, end, &response);
    EXPECT_EQ(rejected.error_code(), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_THAT(rejected.error_message(), Not(HasSubstr(kToken)));
  }
  EXPECT_EQ(roles.world.pool.episode(end.episode_id()).state(), v1::EPISODE_OPEN);
  const grpc::Status reached =
      Call(stranger, "/ingot.v1.DataPool/Status", {{"ingot-token", kToken}, {"ingot-rpc-format", "1"}});
  EXPECT_NE(reached.error_code(), grpc::StatusCode::UNAUTHENTICATED) << reached.error_message();
  EXPECT_NE(reached.error_code(), grpc::StatusCode::FAILED_PRECONDITION) << reached.error_message();
}

// A peer of another version of Ingot is told so before a service reads its message.
TEST(GrpcAccess, APeerOfAnotherFormatIsRejectedByName) {
  Roles roles;
  const auto stranger = grpc::CreateChannel(roles.address(), grpc::InsecureChannelCredentials());
  for (const auto& [format, named] : {std::pair("2", "format 2"), {"0", "format 0"}, {"x", "format -1"}}) {
    const grpc::Status rejected =
        Call(stranger, "/ingot.v1.DataPool/Status", {{"ingot-token", kToken}, {"ingot-rpc-format", format}});
    EXPECT_EQ(rejected.error_code(), grpc::StatusCode::FAILED_PRECONDITION) << rejected.error_message();
    EXPECT_THAT(rejected.error_message(), HasSubstr(named));
    EXPECT_THAT(rejected.error_message(), HasSubstr("has format 1"));
    EXPECT_THAT(rejected.error_message(), HasSubstr("same version of ingot on all of the run's machines"));
  }
  EXPECT_TRUE(absl::StrContains(Call(stranger, "/ingot.v1.DataPool/Status", {{"ingot-token", kToken}}).error_message(),
                                "format 0"));
}

// A service's own refusal of a key stays as the service made it.
TEST(GrpcAccess, AGatewaysOwnRejectionStays) {
  Roles roles;
  const auto stub = v1::Gateway::NewStub(Connect(roles.address(), WithToken(kToken)));
  grpc::ClientContext context;
  v1::EpisodeRewardRequest reward;
  reward.set_episode_id(roles.world.Open().episode_id());
  reward.set_reward(1);
  v1::EpisodeRewardResponse response;
  const grpc::Status rejected = stub->RewardEpisode(&context, reward, &response);
  EXPECT_EQ(rejected.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(rejected.error_message(), Not(HasSubstr("rejects this process")));
}

TEST(GrpcAccess, AListenerWithoutATokenIsNotStarted) {
  EXPECT_FALSE(GrpcServer::Start("127.0.0.1:0", {}, WithToken("")).ok());
}

TEST(GrpcAccess, PlainTextStaysOnThisMachineUnlessItIsAllowed) {
  RpcAccess plain = WithToken(kToken);
  for (const char* near : {"127.0.0.1:1", "127.9.9.9:1", "localhost:1", "[::1]:1"}) {
    EXPECT_TRUE(CheckReach(near, plain).ok()) << near;
  }
  for (const char* far : {"0.0.0.0:1", "10.1.2.3:1", "[::]:1"}) {
    const absl::Status rejected = CheckReach(far, plain);
    EXPECT_TRUE(absl::IsFailedPrecondition(rejected)) << far;
    EXPECT_THAT(std::string(rejected.message()), HasSubstr("cluster.tls.certificate"));
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(GrpcServer::Start("0.0.0.0:0", {}, plain).status()));
  plain.allow_plaintext = true;
  EXPECT_TRUE(CheckReach("0.0.0.0:1", plain).ok());
}

// Servers and channels are made in one place, where they ask for the token and send it. etcd is a server of others: it
// gets no token, and its client has TLS and credentials of its own.
TEST(GrpcAccess, NoOtherFileMakesAServerOrAChannel) {
  int seen = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(INGOT_SOURCE_DIR) + "/src")) {
    const std::string name = entry.path().filename();
    if (!name.ends_with(".cc") && !name.ends_with(".h")) continue;
    std::ifstream file(entry.path());
    std::string text;
    for (std::string line; std::getline(file, line);) {
      if (line.find_first_not_of(' ') != line.find("//")) absl::StrAppend(&text, line, "\n");
    }
    ++seen;
    for (const char* word :
         {"ServerBuilder", "AddListeningPort", "CreateChannel", "CreateCustomChannel", "ChannelCredentials("}) {
      if (name == "grpc_access.cc" || name == "grpc_server.cc" || name == "grpc_etcd_client.cc") continue;
      EXPECT_EQ(text.find(word), std::string::npos) << entry.path() << " has " << word;
    }
  }
  EXPECT_GT(seen, 300);
}

// ---- TLS -----------------------------------------------------------------------------------------------------------

// A folder with a certificate authority, a certificate that it signed for 127.0.0.1, and one of another authority.
class Certificates : public ::testing::Test {
 protected:
  Certificates() {
    std::string name = ::testing::TempDir() + "/grpc_tls_XXXXXX";
    folder_ = mkdtemp(name.data());
    std::ofstream(folder_ + "/san") << "subjectAltName=IP:127.0.0.1\n";
    Run("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem");
    Run("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=other -keyout o.key -out "
        "other.pem");
    Run("req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=role -keyout role.key -out role.csr");
    Run("x509 -req -in role.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile san -out role.pem");
    std::ofstream(folder_ + "/text") << "no certificate\n";
  }
  ~Certificates() override { std::filesystem::remove_all(folder_); }
  void Run(const std::string& command) const {
    ASSERT_EQ(std::system(("cd " + folder_ + " && openssl " + command + " >log 2>&1").c_str()), 0) << command;
  }
  std::string Text(const std::string& name) const {
    std::ifstream file(folder_ + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  ClusterOptions Cluster(const std::string& ca = "ca.pem") const {
    ClusterOptions cluster;
    cluster.tls_certificate = folder_ + "/role.pem";
    cluster.tls_key = folder_ + "/role.key";
    cluster.tls_ca = folder_ + "/" + ca;
    return cluster;
  }

  std::string folder_;
};

TEST_F(Certificates, EveryConnectionIsVerifiedAndPlainTextIsRejected) {
  Roles roles(AccessOf(Cluster(), kToken).value());
  const auto ask = [&](const RpcAccess& access) {
    return Call(Connect(roles.address(), access), "/ingot.v1.DataPool/Status");
  };
  // The memory pool of the test implements no Status.
  EXPECT_EQ(ask(AccessOf(Cluster(), kToken).value()).error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(ask(AccessOf(Cluster(), "another-token-0123456789").value()).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  // Neither a client that speaks plain text, with the right token, nor one that trusts somebody else gets through.
  EXPECT_EQ(ask(WithToken(kToken)).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ask(AccessOf(Cluster("other.pem"), kToken).value()).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(CheckReach("0.0.0.0:1", AccessOf(Cluster(), kToken).value()).ok());
}

TEST_F(Certificates, APlainTextServerGetsNoTokenOfATlsClient) {
  Roles roles;
  EXPECT_EQ(
      Call(Connect(roles.address(), AccessOf(Cluster(), kToken).value()), "/ingot.v1.DataPool/Status").error_code(),
      grpc::StatusCode::UNAVAILABLE);
}

TEST_F(Certificates, WithMutualTlsAPeerThatShowsNoCertificateIsRejected) {
  ClusterOptions both = Cluster();
  both.mutual_tls = true;
  Roles roles(AccessOf(both, kToken).value());
  const auto ask = [&](const RpcAccess& access) {
    return Call(Connect(roles.address(), access), "/ingot.v1.DataPool/Status");
  };
  EXPECT_EQ(ask(AccessOf(both, kToken).value()).error_code(), grpc::StatusCode::UNIMPLEMENTED) << "as the pool answers";
  // The right token, over a connection that the caller verified: without a certificate it is not enough.
  const grpc::Status rejected = ask(AccessOf(Cluster(), kToken).value());
  EXPECT_EQ(rejected.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(rejected.error_message(),
              HasSubstr("presents no certificate, but the role requires one (cluster.tls.mutual)"));
  // A certificate of somebody else gets no connection.
  RpcAccess stranger = AccessOf(both, kToken).value();
  stranger.certificate = Text("other.pem");
  stranger.key = Text("o.key");
  EXPECT_EQ(ask(stranger).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(Certificates, ACertificateThatPeersWouldRejectIsAnErrorAtTheStart) {
  ClusterOptions both = Cluster("other.pem");
  EXPECT_TRUE(AccessOf(both, kToken).ok());
  both.mutual_tls = true;
  const absl::Status fault = AccessOf(both, kToken).status();
  EXPECT_TRUE(absl::IsInvalidArgument(fault));
  EXPECT_THAT(std::string(fault.message()), HasSubstr("role.pem"));
  EXPECT_THAT(std::string(fault.message()), HasSubstr("other.pem"));
}

TEST_F(Certificates, ANameOfAllRolesStandsForTheirAddresses) {
  std::ofstream(folder_ + "/san") << "subjectAltName=DNS:roles.ingot\n";
  Run("x509 -req -in role.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile san -out role.pem");
  ClusterOptions named = Cluster();
  Roles roles(AccessOf(named, kToken).value());
  const auto ask = [&] {
    return Call(Connect(roles.address(), AccessOf(named, kToken).value()), "/ingot.v1.DataPool/Status").error_code();
  };
  EXPECT_EQ(ask(), grpc::StatusCode::UNAVAILABLE) << "the certificate is not for 127.0.0.1";
  named.tls_name = "roles.ingot";
  EXPECT_EQ(ask(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(Certificates, FilesAreCheckedBeforeAnybodyListens) {
  const auto fault = [&](const std::string& certificate, const std::string& key, const std::string& ca) {
    ClusterOptions cluster;
    cluster.tls_certificate = folder_ + "/" + certificate;
    cluster.tls_key = folder_ + "/" + key;
    cluster.tls_ca = folder_ + "/" + ca;
    return std::string(AccessOf(cluster, kToken).status().message());
  };
  EXPECT_EQ(fault("role.pem", "role.key", "ca.pem"), "");
  EXPECT_THAT(fault("missing.pem", "role.key", "ca.pem"), HasSubstr("missing.pem"));
  EXPECT_THAT(fault("text", "role.key", "ca.pem"), HasSubstr("/text"));
  EXPECT_THAT(fault("role.pem", "ca.key", "ca.pem"), HasSubstr("ca.key"));
  EXPECT_THAT(fault("role.pem", "role.key", "text"), HasSubstr("/text"));
  EXPECT_THAT(fault("role.pem", "role.key", "missing.pem"), HasSubstr("missing.pem"));
}

}  // namespace
}  // namespace ingot::app
