// Asks an engine to compute a prompt for another engine, which then reads it from the KV store (GenerateRequest.
// prefill_only). Thread safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "base/executor.h"
#include "base/mutex.h"
#include "rollout/client.h"

namespace ingot::rollout {

class RemotePrefill : public std::enable_shared_from_this<RemotePrefill> {
 public:
  // `done` is called once, on any thread, with OK, the engine's error, or DEADLINE_EXCEEDED.
  explicit RemotePrefill(std::function<void(const absl::Status&)> done) : done_(std::move(done)) {}

  // Returns immediately. `done` may be called before that.
  void Start(Client& engine, const v1::GenerateRequest& request, std::chrono::milliseconds wait);
  // Aborts the prefill and returns true, unless `done` was called. From now on, `done` is not called.
  bool Cancel() { return Stop() != nullptr; }

 private:
  using Done = std::function<void(const absl::Status&)>;

  void End(const absl::Status& status);
  Done Stop();  // null = it has ended

  base::Mutex mu_;
  Done done_ ABSL_GUARDED_BY(mu_);  // null = it has ended
  std::unique_ptr<Client::Request> request_ ABSL_GUARDED_BY(mu_);
  base::Timer timer_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::rollout
