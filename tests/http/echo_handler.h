// A handler that sends bodies back, and a server around it: HTTP without a gateway.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/mutex.h"
#include "http/server.h"
#include "http/wire.h"

namespace ingot::http {

// Each path answers with the request's body, in its own way:
//
//   /echo          at once
//   /stream        as a stream of pieces of 1,000 bytes, one for each Send
//   /hold          after Release
//   /hold/stream   as a stream that begins with "begun\n" at once and continues after Release
//   /small         at once, of at most 10 bytes
//   /nothing       404 at once
//   /refused       never: 403 by its head
class EchoHandler final : public Handler {
 public:
  Opening Head(RequestHead head) override {
    const std::string_view target = head.target;
    {
      base::MutexLock lock(mu_);
      client_gone_ = head.client_gone;
    }
    if (target == "/refused") return {.rejection = Error(403, "refused", "not this one")};
    if (target == "/nothing")
      return {.exchange = MakeExchange([](const auto&) { return Error(404, "not_found", ""); })};
    if (target == "/stream" || target.starts_with("/hold")) {
      auto exchange = std::make_shared<Echo>(*this, target.starts_with("/hold"), target != "/hold");
      return {.exchange = std::move(exchange)};
    }
    auto echo = [](const std::string& body) { return Reply{.content_type = "text/plain", .body = body}; };
    return {.exchange = MakeExchange(echo), .max_body_bytes = target == "/small" ? 10 : -1};
  }
  Reply Reject(std::string_view, const Rejection& why) override { return Error(why.status, why.code, why.message); }

  void WaitForHeld(size_t count) {
    base::MutexLock lock(mu_);
    while (held_.size() < count) changed_.Wait(mu_);
  }
  // Lets all exchanges that are held, or will be, answer.
  void Release() {
    std::vector<std::shared_ptr<Echo>> held;
    {
      base::MutexLock lock(mu_);
      released_ = true;
      held = held_;
    }
    for (const auto& exchange : held) exchange->Wake();
  }
  // The exchanges that were notified that the connection closed.
  std::vector<Side> WaitForClosed(size_t count) {
    base::MutexLock lock(mu_);
    while (closed_.size() < count) changed_.Wait(mu_);
    return closed_;
  }
  // RequestHead::client_gone of the newest request.
  std::function<bool()> client_gone() const {
    base::MutexLock lock(mu_);
    return client_gone_;
  }
  // The number of times that a server asked for data to send.
  size_t sends() const {
    base::MutexLock lock(mu_);
    return sends_;
  }

 private:
  class Echo final : public Exchange, public std::enable_shared_from_this<Echo> {
   public:
    Echo(EchoHandler& handler, bool held, bool streams) : handler_(handler), held_(held), streams_(streams) {}
    void Body(std::string body, std::function<void()> wake) override {
      body_ = std::move(body);
      wake_ = std::move(wake);
      if (held_) handler_.Hold(shared_from_this());
      wake_();
    }
    Output Send() override {
      const bool ready = handler_.CountSend() || !held_;
      if (!streams_) return ready ? Output{.reply = Reply{.body = body_}, .done = true} : Output{};
      Output output;
      if (!std::exchange(begun_, true)) {
        output.stream = StreamHead{.content_type = "text/plain", .filler = ":\n"};
        if (held_) output.data = "begun\n";
      }
      if (!ready) return output;
      output.data += body_.substr(at_, 1000);
      at_ = std::min(body_.size(), at_ + 1000);
      output.done = at_ == body_.size();
      wake_();
      return output;
    }
    void Closed(Side side) override { handler_.Close(side); }
    void Wake() { wake_(); }

   private:
    EchoHandler& handler_;
    const bool held_, streams_;
    std::string body_;
    std::function<void()> wake_;
    size_t at_ = 0;
    bool begun_ = false;
  };

  static Reply Error(int status, const std::string& code, const std::string& message) {
    const base::json::object error{{"code", code}, {"message", message}};
    Reply reply{.status = status, .body = base::PrintJson(base::json::object{{"error", error}})};
    if (status == 503) reply.fields = {{"Retry-After", "1"}};
    return reply;
  }
  void Hold(std::shared_ptr<Echo> exchange) {
    base::MutexLock lock(mu_);
    held_.push_back(std::move(exchange));
    changed_.SignalAll();
  }
  void Close(Side side) {
    base::MutexLock lock(mu_);
    closed_.push_back(side);
    changed_.SignalAll();
  }
  // True = Release was called.
  bool CountSend() {
    base::MutexLock lock(mu_);
    ++sends_;
    return released_;
  }

  mutable base::Mutex mu_;
  std::function<bool()> client_gone_ ABSL_GUARDED_BY(mu_);
  base::CondVar changed_;
  size_t sends_ ABSL_GUARDED_BY(mu_) = 0;
  bool released_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::shared_ptr<Echo>> held_ ABSL_GUARDED_BY(mu_);
  std::vector<Side> closed_ ABSL_GUARDED_BY(mu_);
};

// The handler, served on a socket; the server starts at its first use.
struct EchoSite {
  EchoSite() { options.port = 0; }
  ~EchoSite() { handler.Release(); }
  Server& server() {
    if (server_ == nullptr) {
      server_ = Server::Listen(options, handler).value();
      server_->Serve();
    }
    return *server_;
  }
  Response Ask(const std::string& method, const std::string& target, const std::string& body) {
    Wire wire(server().port());
    wire.Send(Request(method, target, body));
    return Read(wire);
  }
  // Until no connection is open.
  void WaitForNoConnections() {
    while (server().connections() != 0) std::this_thread::yield();
  }

  Options options;
  EchoHandler handler;

 private:
  std::unique_ptr<Server> server_;
};

}  // namespace ingot::http
