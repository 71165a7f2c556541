// Sessions for tests, in sandboxes of the test's own uid unless a test asks for a wall.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "execution/session.h"
#include "sandbox/test_sandbox.h"

namespace ingot::execution {

// A flag that other threads raise.
class Bell {
 public:
  std::function<void()> ring() {
    return [state = state_] {
      const std::lock_guard lock(state->mu);
      ++state->rings;
      state->isolation.notify_all();
    };
  }
  // Calls `ready` after each ring until it is true, for a minute at most.
  template <typename Ready>
  bool Await(Ready ready) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (true) {
      int seen;
      {
        const std::lock_guard lock(state_->mu);
        seen = state_->rings;
      }
      if (ready()) return true;
      std::unique_lock lock(state_->mu);
      if (!state_->isolation.wait_until(lock, deadline, [&] { return state_->rings != seen; })) return ready();
    }
  }

 private:
  struct State {
    std::mutex mu;
    std::condition_variable isolation;
    int rings = 0;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

// One program with its output and end so far.
struct Watched {
  Session::StartedProgram started;
  std::shared_ptr<Bell> bell = std::make_shared<Bell>();
  std::string out, err, notes;
  std::optional<ProcessEnd> end;

  void Look() {
    const Subscription::News news = started.subscription->TakeNews();
    for (const auto& chunk : news.chunks) {
      (chunk->stream == Stream::kOut ? out : chunk->stream == Stream::kErr ? err : notes) += chunk->bytes;
    }
    if (news.end.has_value()) end = news.end;
  }
  template <typename Ready>
  bool Await(Ready ready) {
    return bell->Await([&] {
      Look();
      return ready();
    });
  }
  bool AwaitEnd() {
    return Await([&] { return end.has_value(); });
  }
};

class SessionTest : public testing::Test {
 protected:
  std::shared_ptr<Session> Open(SessionOptions options = {}) {
    if (substrate_ == nullptr) substrate_ = sandbox::SharedUidSubstrate(folder_.path());
    auto session = Session::Open(*substrate_, std::move(options));
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? *session : nullptr;
  }
  Watched Start(Session& session, Program program) {
    Watched watched;
    auto started = session.Start(std::move(program), watched.bell->ring());
    EXPECT_TRUE(started.ok()) << started.status();
    if (started.ok()) watched.started = *started;
    return watched;
  }
  Watched Shell(Session& session, const std::string& text) {
    return Start(session, {.argv = {"sh", "-c", text}, .has_input = true});
  }

  const sandbox::TestFolder folder_;
  std::unique_ptr<sandbox::Substrate> substrate_;
};

}  // namespace ingot::execution
