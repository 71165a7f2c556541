#include "app/checks/machine_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

namespace ingot::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RunConfig Good() {
  RunConfig config;
  config.root = ::testing::TempDir() + "/machine_check/runs";
  config.device = "cpu";
  return config;
}

// What this machine lacks for the configuration with a change; empty = nothing.
std::string Fault(const std::function<void(RunConfig&)>& change) {
  RunConfig config = Good();
  change(config);
  return std::string(CheckMachine(config).status().message());
}

TEST(MachineCheck, AGoodRunPassesAndNothingIsLeftBehind) {
  const auto passed = CheckMachine(Good());
  ASSERT_TRUE(passed.ok()) << passed.status();
  EXPECT_THAT(*passed, IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(Good().root));
}

TEST(MachineCheck, NamesTheKeyThatTheStartWouldReject) {
  EXPECT_THAT(Fault([](RunConfig& c) { c.name = "a/b"; }), HasSubstr("run.name 'a/b'"));
  EXPECT_THAT(Fault([](RunConfig& c) { c.root = "/proc/nowhere"; }), HasSubstr("run.root is '/proc/nowhere'"));
  EXPECT_THAT(Fault([](RunConfig& c) { c.http.host = "not a host"; }), HasSubstr("'not a host' is not an IP address"));
  EXPECT_THAT(Fault([](RunConfig& c) { c.http.host = "0.0.0.0"; }), HasSubstr("gateway.tls.certificate"));
  EXPECT_EQ(Fault([](RunConfig& c) {
              c.http.host = "0.0.0.0";
              c.http.allow_plaintext = true;
            }),
            "");
  EXPECT_THAT(Fault([](RunConfig& c) { c.http.tls_certificate = c.http.tls_key = "/no/such.pem"; }),
              HasSubstr("/no/such.pem"));
  EXPECT_THAT(Fault([](RunConfig& c) { c.gateway.admin_key_file = "/no/such/file"; }), HasSubstr("admin_key_file"));
  EXPECT_THAT(Fault([](RunConfig& c) { c.cluster.token_file = "/no/such/file"; }), HasSubstr("cluster.token_file"));
  EXPECT_THAT(Fault([](RunConfig& c) { c.cluster.host = "192.0.2.2"; }), HasSubstr("cluster.tls.certificate"));
  EXPECT_THAT(Fault([](RunConfig& c) { c.device = "cuda"; }), HasSubstr("cuda"));
}

TEST(MachineCheck, SaysWhatItLeavesToOtherNodes) {
  RunConfig config = Good();
  config.root = "/proc/nowhere";
  config.cluster.groups = {{"all", 2, {"rollout"}, 1, {}}};
  const auto passed = CheckMachine(config);
  ASSERT_TRUE(passed.ok()) << passed.status();
  EXPECT_THAT(*passed, ElementsAre(HasSubstr("run.root, device")));
}

}  // namespace
}  // namespace ingot::app
