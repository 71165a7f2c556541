// The orders of a session that wait for its guest agent.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "base/status.h"
#include "execution/guest_agent_messages.h"
#include "sandbox/spawn.h"

namespace ingot::execution {

// Chunks of output outlive their session and give their bytes back here. Thread safe.
class Outbox {
 public:
  explicit Outbox(sandbox::Fd wake) : wake_(std::move(wake)) {}
  // RESOURCE_EXHAUSTED: too many bytes wait.
  absl::Status Add(FrameKind kind, uint32_t id, uint32_t number, std::string_view payload);
  // Calls `write` with the waiting bytes, and drops as many as it took. False: `write` returned -1, for a broken
  // socket.
  bool Flush(const std::function<ssize_t(std::string_view)>& write);
  bool is_empty() const;
  void Wake() const;
  int wake_fd() const { return wake_.get(); }

 private:
  const sandbox::Fd wake_;  // an eventfd
  mutable base::Mutex mu_;
  std::string bytes_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::execution
