// Answers that come in parts. A Feed makes an answer from something that goes on elsewhere, such as a program's output.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "base/executor.h"
#include "http/handler.h"
#include "sandbox/process.h"

namespace ingot::execution {

class Feed {
 public:
  virtual ~Feed() = default;
  // As Exchange::Send; it must not block.
  virtual http::Output Next() = 0;
  // Nobody reads the rest. It must not block.
  virtual void Closed() {}
};

// Begins an answer, on a thread of the service's, where it may block. `wake`: to be called when Next has something new.
using Opener =
    std::function<std::variant<http::Reply, std::shared_ptr<Feed>>(std::string body, std::function<void()> wake)>;

// An answer that `answer` makes on one of `threads`. A client that goes away cancels `cancel`; once it is cancelled, `answer` is
// not begun. Null = the threads take no more work.
std::shared_ptr<Feed> MakePostedFeed(base::Executor& threads, std::shared_ptr<sandbox::Cancellation> cancel,
                                     std::function<http::Reply()> answer, std::function<void()> wake);

// An exchange that `open` answers. `busy`: the answer where `threads` takes no more work. The threads outlive it.
std::shared_ptr<http::Exchange> MakeFeedExchange(base::Executor& threads, Opener open, http::Reply busy);

}  // namespace ingot::execution
