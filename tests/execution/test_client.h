// A client of the service without sockets: it calls the handler as the HTTP server does.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/json.h"
#include "execution/service.h"
#include "sandbox/test_sandbox.h"

namespace ingot::execution {

// False = it did not become true within a minute.
template <typename Ready>
bool Eventually(Ready ready) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!ready()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

// The answer to one request, as far as it came.
class Call {
 public:
  Call(http::Handler& handler, http::RequestHead head, std::string body) {
    http::Opening opening = handler.Head(std::move(head));
    exchange_ = opening.exchange;
    if (exchange_ == nullptr) {
      reply_ = opening.rejection;
      return;
    }
    exchange_->Body(std::move(body), [state = state_] {
      const std::lock_guard lock(state->mu);
      ++state->wakes;
      state->woken.notify_all();
    });
  }
  ~Call() {
    if (exchange_ != nullptr && !done_) exchange_->Closed(http::Side::kClient);
  }

  // Reads until `ready`, or the end; false = neither within a minute.
  template <typename Ready>
  bool Await(Ready ready) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    int seen = -1;
    while (exchange_ != nullptr && !done_) {
      {
        std::unique_lock lock(state_->mu);
        if (!state_->woken.wait_until(lock, deadline, [&] { return state_->wakes != seen; })) return false;
        seen = state_->wakes;
      }
      TakeEvents();
      if (ready()) return true;
    }
    return ready();
  }
  const http::Reply& Reply() {
    EXPECT_TRUE(Await([this] { return reply_.has_value(); })) << "no answer";
    static const http::Reply kNone{.status = 0};
    return reply_.has_value() ? *reply_ : kNone;
  }
  // The bytes of a stream up to its end, or the body of a reply.
  const std::string& Bytes() {
    EXPECT_TRUE(Await([this] { return done_ || reply_.has_value(); }));
    return reply_.has_value() ? reply_->body : data_;
  }
  // The service has begun, or given, an answer.
  bool has_woken() const {
    const std::lock_guard lock(state_->mu);
    return state_->wakes > 0;
  }
  const std::string& so_far() const { return data_; }
  const std::string& content_type() const { return reply_.has_value() ? reply_->content_type : stream_; }
  bool is_done() const { return done_; }

 private:
  // Like the server: repeats until nothing more comes.
  void TakeEvents() {
    while (!done_) {
      http::Output output = exchange_->Send();
      if (output.reply.has_value()) reply_ = std::move(output.reply);
      if (output.stream.has_value()) stream_ = output.stream->content_type;
      data_ += output.data;
      done_ = output.done;
      if (output.data.empty() && !output.stream.has_value()) return;
    }
  }

  struct State {
    std::mutex mu;
    std::condition_variable woken;
    int wakes = 0;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
  std::shared_ptr<http::Exchange> exchange_;
  std::optional<http::Reply> reply_;
  std::string stream_, data_;
  bool done_ = false;
};

class ServiceTest : public testing::Test {
 protected:
  static constexpr char kKey[] = "a key of the service";

  void Make(ServiceOptions options = {}) {
    MakeOn(sandbox::SharedUidSubstrate(folder_.path() + "/work"), std::move(options));
  }
  void MakeOn(std::unique_ptr<sandbox::Substrate> substrate, ServiceOptions options = {}) {
    options.key = kKey;
    options.images = folder_.path() + "/images";
    service_ = std::make_unique<Service>(std::move(substrate), options);
  }
  std::unique_ptr<Call> Begin(const std::string& method, const std::string& target, const std::string& body,
                              http::Fields fields = {{"Authorization", std::string("Bearer ") + kKey}}) {
    if (service_ == nullptr) Make();
    return std::make_unique<Call>(
        *service_, http::RequestHead{.method = method, .target = target, .fields = std::move(fields)}, body);
  }
  http::Reply Ask(const std::string& method, const std::string& target, const std::string& body,
                  http::Fields fields = {{"Authorization", std::string("Bearer ") + kKey}}) {
    return Begin(method, target, body, std::move(fields))->Reply();
  }
  static base::json::value Json(const http::Reply& reply) {
    auto json = base::ParseJson(reply.body);
    EXPECT_TRUE(json.ok()) << reply.body;
    return json.ok() ? *json : base::json::value(base::json::object());
  }

  const sandbox::TestFolder folder_;
  std::unique_ptr<Service> service_;
};

}  // namespace ingot::execution
