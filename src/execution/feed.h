// Sends responses in parts. A Feed produces a response from an ongoing activity, such as a program's output.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/executor.h"
#include "base/mutex.h"
#include "http/handler.h"
#include "sandbox/process.h"

namespace ingot::execution {

class Feed {
 public:
  virtual ~Feed() = default;
  // Same as Exchange::Send. Must not block.
  virtual http::Output Next() = 0;
  // Called if no more output will be read. Must not block.
  virtual void Closed() {}
};

using Answer = std::variant<http::Reply, std::shared_ptr<Feed>>;

// Starts a response. Runs on a service thread and may block. It must call `wake` when Next has new output.
using Opener = std::function<Answer(std::string body, std::function<void()> wake)>;

// A complete response that is produced on another thread. If the client disconnects, `cancel` is canceled.
class PostedFeed final : public Feed {
 public:
  PostedFeed(std::shared_ptr<sandbox::Cancellation> cancel, std::function<void()> wake)
      : cancel_(std::move(cancel)), wake_(std::move(wake)) {}

  const sandbox::Cancellation& cancel() const { return *cancel_; }
  // Returns whether the client stopped waiting for the response.
  bool is_unwanted() const { return cancel_->cancelled(); }
  // Must be called once, on any thread.
  void Set(http::Reply reply);

  http::Output Next() override;
  void Closed() override;

 private:
  const std::shared_ptr<sandbox::Cancellation> cancel_;
  const std::function<void()> wake_;
  base::Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<http::Reply> reply_ ABSL_GUARDED_BY(mu_);
};

// Runs a task on a thread where it may block. Must not block itself. Returns false, and drops the task, if no thread is
// free.
using Poster = std::function<bool(base::Task task)>;

// Creates an exchange that passes `open` to `post`, which produces the response on its thread. `busy` is the response
// if no thread is free. `open` is not called if the client has disconnected.
std::shared_ptr<http::Exchange> MakeFeedExchange(Poster post, Opener open, http::Reply busy);

}  // namespace ingot::execution
