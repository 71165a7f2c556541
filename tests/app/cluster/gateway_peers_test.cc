// Which gateways are there, as one of them knows it: by what the registry told last, so that no request waits for a registry.
#include "app/cluster/gateway_peers.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "registry/local_registry.h"

namespace ingot::app {
namespace {

using std::chrono::seconds;

// Counts the questions that would hang in a time without a majority of members.
class CountingRegistry final : public registry::Registry {
 public:
  CountingRegistry(std::unique_ptr<registry::Registry> inner, std::atomic<int>& questions)
      : inner_(std::move(inner)), questions_(questions) {}
  std::string Describe() const override { return inner_->Describe(); }
  absl::StatusOr<std::unique_ptr<registry::Lease>> Grant(std::chrono::milliseconds ttl,
                                                         std::function<void()> on_lost) override {
    return inner_->Grant(ttl, std::move(on_lost));
  }
  absl::StatusOr<registry::PutResult> Put(const std::string& key, const std::string& value,
                                          const registry::PutOptions& options) override {
    return inner_->Put(key, value, options);
  }
  absl::StatusOr<std::optional<registry::Entry>> Get(const std::string& key) override {
    ++questions_;
    return inner_->Get(key);
  }
  absl::StatusOr<registry::Listing> List(const std::string& prefix) override {
    ++questions_;
    return inner_->List(prefix);
  }
  absl::Status Delete(const std::string& key) override { return inner_->Delete(key); }
  absl::StatusOr<std::unique_ptr<registry::Watcher>> Watch(const std::string& prefix, Observer observer) override {
    return inner_->Watch(prefix, std::move(observer));
  }

 private:
  const std::unique_ptr<registry::Registry> inner_;
  std::atomic<int>& questions_;
};

class GatewayPeersTest : public ::testing::Test {
 protected:
  GatewayPeersTest() {
    std::string pattern = std::filesystem::temp_directory_path().string() + "/ingot-peers-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    config_.name = "run";
    config_.cluster.registry.ttl_s = 2;
    access_.token = "the-token-of-this-run-0123456789";
    registry_ = Open();
    EXPECT_TRUE(registry_->Follow().ok());
  }
  ~GatewayPeersTest() override {
    registry_.reset();
    std::filesystem::remove_all(folder_);
  }
  std::unique_ptr<RunRegistry> Open() {
    auto opened = registry::OpenLocalRegistry({.folder = folder_ + "/registry"});
    EXPECT_TRUE(opened.ok()) << opened.status();
    return RunRegistry::Over(std::make_unique<CountingRegistry>(*std::move(opened), questions_), config_, access_);
  }
  // Waits until the registry has told this process which gateways are there.
  static std::vector<std::string> Await(GatewayPeers& peers, size_t count) {
    absl::StatusOr<std::vector<std::string>> present;
    const auto end = std::chrono::steady_clock::now() + seconds(20);
    do {
      present = peers.peers().Present();
      if (present.ok() && present->size() == count) return *present;
      usleep(1000);
    } while (std::chrono::steady_clock::now() < end);
    ADD_FAILURE() << present.status();
    return {};
  }

  std::string folder_;
  RunConfig config_;
  RpcAccess access_;
  std::atomic<int> questions_ = 0;
  std::unique_ptr<RunRegistry> registry_;
};

TEST_F(GatewayPeersTest, NoRequestAsksTheRegistry) {
  GatewayPeers peers(*registry_, 2, 0);
  EXPECT_FALSE(peers.peers().Present().ok()) << "nobody knows yet";
  EXPECT_TRUE(peers.Gone().empty());
  ASSERT_TRUE(registry_->Register("gateway", "127.0.0.1:1", "127.0.0.1:2").ok());
  auto other = Open();
  ASSERT_TRUE(other->Register("gateway-1", "127.0.0.1:3", "127.0.0.1:4").ok());
  EXPECT_EQ(Await(peers, 2), (std::vector<std::string>{"gateway", "gateway-1"}));
  const int before = questions_;
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(peers.peers().Present().ok());
  EXPECT_TRUE(peers.Gone().empty());
  EXPECT_EQ(questions_, before);
  other.reset();
  EXPECT_EQ(Await(peers, 1), std::vector<std::string>{"gateway"});
}

}  // namespace
}  // namespace ingot::app
