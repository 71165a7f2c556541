// Answers that come in parts. A Feed makes an answer from an ongoing activity elsewhere, such as a program's output.
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
  // As Exchange::Send; it must not block.
  virtual http::Output Next() = 0;
  // The rest will not be read. Must not block.
  virtual void Closed() {}
};

using Answer = std::variant<http::Reply, std::shared_ptr<Feed>>;

// Begins an answer, on one of the service's threads, where it may block. Call `wake` when Next has something new.
using Opener = std::function<Answer(std::string body, std::function<void()> wake)>;

// An answer that is made as a whole on some thread. A client that goes away cancels `cancel`.
class PostedFeed final : public Feed {
 public:
  PostedFeed(std::shared_ptr<sandbox::Cancellation> cancel, std::function<void()> wake)
      : cancel_(std::move(cancel)), wake_(std::move(wake)) {}

  const sandbox::Cancellation& cancel() const { return *cancel_; }
  // True: the client gave up waiting for the answer.
  bool is_unwanted() const { return cancel_->cancelled(); }
  // On any thread, once.
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

// Gives a task to a thread where it may block. Must not block itself. False: no thread is free, and the task is
// dropped.
using Poster = std::function<bool(base::Task task)>;

// An exchange that `open` answers, on a thread of `post`. `busy`: the answer if no thread is free. A request is not
// opened if its client left before.
std::shared_ptr<http::Exchange> MakeFeedExchange(Poster post, Opener open, http::Reply busy);

}  // namespace ingot::execution
