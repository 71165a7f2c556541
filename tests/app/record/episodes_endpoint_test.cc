// Tests a run's responses to `ingot episodes` over a real socket file.
#include "app/record/episodes_endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "app/run/fake_gateway.h"
#include "base/hostile_text.h"
#include "http/wire.h"

namespace ingot::app::episodes_endpoint_test {
namespace {

using ::testing::HasSubstr;

constexpr char kKey[] = "an-admin-key-of-some-length";

class EpisodesEndpointTest : public ::testing::Test {
 protected:
  EpisodesEndpointTest() {
    std::string name = ::testing::TempDir() + "/episodes_XXXXXX";
    folder_ = mkdtemp(name.data());
    std::filesystem::create_directory(folder_ + "/sockets");
    gateway_->ages_ms = {{"a", 161'500}, {"b", 2'000}};
    gateway_->key = kKey;
    endpoint_ = EpisodesEndpoint::Start(folder_, {{"gateway", gateway_}}).value();
  }
  ~EpisodesEndpointTest() override {
    endpoint_.reset();
    std::filesystem::remove_all(folder_);
  }
  std::string path() const { return folder_ + "/sockets/episodes.sock"; }
  http::Response Ask(const std::string& method, const std::string& target, const std::string& body) {
    http::Wire wire(path());
    wire.Send(http::Request(method, target, body, kKey));
    return http::Read(wire);
  }

  std::string folder_;
  const std::shared_ptr<FakeGateway> gateway_ = std::make_shared<FakeGateway>();
  std::unique_ptr<EpisodesEndpoint> endpoint_;
};

TEST_F(EpisodesEndpointTest, ListsAndEndsForItsOwnUser) {
  struct stat what{};
  ASSERT_EQ(stat(path().c_str(), &what), 0);
  EXPECT_EQ(what.st_mode & 07777, 0600u);
  gateway_->task = "t\x1b[1m";
  const base::json::value list = AskForEpisodes(folder_).value();
  EXPECT_EQ(list.at("count").as_int64(), 2);
  EXPECT_EQ(list.at("oldest_s").as_double(), 161.5);
  EXPECT_EQ(list.at("episodes").at(0).at("episode").as_string(), "a");
  EXPECT_EQ(base::PrintJson(list).find('\x1b'), std::string::npos);
  EXPECT_EQ(AskToEnd(folder_, "a", kKey).value(), 1);
  EXPECT_EQ(AskToEnd(folder_, "", kKey).value(), 1);
  EXPECT_EQ(AskForEpisodes(folder_)->at("count").as_int64(), 0);
}

TEST_F(EpisodesEndpointTest, ErrorsKeepTheirCodeAndWords) {
  EXPECT_EQ(AskToEnd(folder_, "a", "wrong").status(), absl::PermissionDeniedError("wrong key"));
  EXPECT_EQ(AskToEnd(folder_, "x", kKey).status(), absl::NotFoundError("there is no open episode"));
  gateway_->fault = absl::UnavailableError("it restarts");
  EXPECT_TRUE(absl::IsDeadlineExceeded(AskToEnd(folder_, "a", kKey).status())) << "the run itself answers";
  EXPECT_EQ(AskForEpisodes(folder_)->at("silent").at(0).as_string(), "gateway: it restarts");
  endpoint_.reset();
  EXPECT_TRUE(absl::IsUnavailable(AskForEpisodes(folder_).status()));
  EXPECT_TRUE(absl::IsUnavailable(AskToEnd(folder_, "a", kKey).status()));
}

TEST_F(EpisodesEndpointTest, MalformedRequestsEndNothing) {
  std::vector<std::string> bodies = {"",
                                     "{}",
                                     "[]",
                                     "null",
                                     "{\"episode\": \"\"}",
                                     "{\"episode\": 7}",
                                     "{\"all\": false}",
                                     "{\"all\": 1}",
                                     "{\"all\": true, \"episode\": \"a\"}",
                                     "{\"all\": true, \"x\": 1}",
                                     "{\"episode\": [\"a\"]}",
                                     "{\"all\": tru"};
  for (const std::string& hostile : base::HostileTexts()) bodies.push_back(hostile.substr(0, 2000));
  for (const std::string& body : bodies) {
    const http::Response response = Ask("POST", "/episodes/end", body);
    EXPECT_EQ(response.status, 400) << body;
    EXPECT_THAT(response.body, HasSubstr("the body is {\\\"episode\\\": ID}")) << body;
  }
  EXPECT_EQ(Ask("POST", "/episodes/end", std::string(100'000, ' ')).status, 413);
  EXPECT_EQ(Ask("GET", "/episodes/end", "").status, 404);
  EXPECT_EQ(Ask("POST", "/episodes", "").status, 404);
  EXPECT_EQ(Ask("DELETE", "/episodes", "").status, 404);
  EXPECT_TRUE(gateway_->asked.empty());
  for (const std::string& hostile : base::HostileTexts()) {
    const absl::Status rejected = AskToEnd(folder_, hostile, kKey).status();
    EXPECT_FALSE(rejected.ok());
    EXPECT_LT(rejected.message().size(), 300u);
  }
  EXPECT_EQ(gateway_->ages_ms.size(), 2u);
}

}  // namespace
}  // namespace ingot::app::episodes_endpoint_test
