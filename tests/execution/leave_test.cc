// Sessions whose opener goes away, at any moment, end.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "execution/test_client.h"
#include "http/server.h"
#include "http/wire.h"

namespace ingot::execution {
namespace {

class LeaveTest : public ServiceTest {
 protected:
  void SetUp() override {
    Make();
    http::Options options;
    options.port = 0;
    server_ = http::Server::Listen(options, *service_).value();
    server_->Serve();
  }
  size_t Sessions() { return Json(Ask("GET", "/ingot/v1/sessions", "")).at("sessions").get_array().size(); }
  std::unique_ptr<http::Wire> Post(const std::string& target) {
    auto wire = std::make_unique<http::Wire>(server_->port());
    wire->Send(http::Request("POST", target, "{}", kKey));
    return wire;
  }

  std::unique_ptr<http::Server> server_;
};

TEST_F(LeaveTest, AfterTheAnswerThatWasNotFetched) {
  for (const char* const target : {"/ingot/v1/sessions", "/sandboxes"}) {
    auto call = Begin("POST", target, "{}");
    EXPECT_TRUE(Eventually([&] { return Sessions() == 1; }));
    call.reset();
    EXPECT_TRUE(Eventually([&] { return Sessions() == 0; })) << target;
  }
}

TEST_F(LeaveTest, WithTheAnswerUnread) {
  for (const char* const target : {"/ingot/v1/sessions", "/sandboxes"}) {
    const auto wire = Post(target);
    char byte;
    ASSERT_EQ(recv(wire->fd(), &byte, 1, MSG_PEEK), 1);
    wire->Close();
    EXPECT_TRUE(Eventually([&] { return Sessions() == 0; })) << target;
  }
}

TEST_F(LeaveTest, AReaderKeepsItsSession) {
  const auto wire = Post("/ingot/v1/sessions");
  const http::Response response = http::Read(*wire);
  EXPECT_EQ(response.status, 200);
  wire->Close();
  while (server_->connections() > 0) std::this_thread::yield();
  EXPECT_EQ(Sessions(), 1u);
  const auto other = Post("/ingot/v1/sessions");
  const std::string id(http::Read(*other).json().at("id").get_string());
  EXPECT_EQ(Ask("GET", "/ingot/v1/sessions/" + id, "").status, 200);
  other->Reset();
  while (server_->connections() > 0) std::this_thread::yield();
  EXPECT_EQ(Sessions(), 2u) << "it was used, so its id is known";
}

TEST_F(LeaveTest, ManyAtManyMoments) {
  std::vector<std::unique_ptr<http::Wire>> clients;
  for (int i = 0; i < 48; ++i) clients.push_back(Post(i % 2 == 0 ? "/ingot/v1/sessions" : "/sandboxes"));
  for (size_t i = 0; i < clients.size(); ++i) {
    i % 3 == 0 ? clients[i]->Reset() : clients[i]->Close();
    std::this_thread::sleep_for(std::chrono::milliseconds(i % 4 * 3));  // they are at many stages
  }
  EXPECT_TRUE(Eventually([&] { return server_->connections() == 0; }));
  EXPECT_TRUE(Eventually([&] { return Sessions() == 0; })) << Sessions();
}

}  // namespace
}  // namespace ingot::execution
