// Queues a session's requests to its guest agent.
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

// Output chunks may outlive their session and release their bytes here. Thread safe.
class Outbox {
 public:
  explicit Outbox(sandbox::Fd wake) : wake_(std::move(wake)) {}
  // Returns RESOURCE_EXHAUSTED if too many bytes are queued.
  absl::Status Add(FrameKind kind, uint32_t id, uint32_t number, std::string_view payload);
  // Calls `write` with the queued bytes and removes as many as it accepted. Returns false if `write` returned -1
  // because the socket is broken.
  bool Flush(const std::function<ssize_t(std::string_view)>& write);
  bool is_empty() const;
  void Wake() const;
  int wake_fd() const { return wake_.get(); }

 private:
  const sandbox::Fd wake_;  // eventfd
  mutable base::Mutex mu_;
  std::string bytes_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::execution
