// A ChunkGate hands the chunks of one request to its OnChunk until the request's handle closes the gate. The in-process
// engine, the gRPC client and EngineSet use it. Thread safe.
#pragma once

#include <atomic>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "rollout/client.h"

namespace ingot::rollout {

class ChunkGate {
 public:
  explicit ChunkGate(Client::OnChunk on_chunk) : on_chunk_(std::move(on_chunk)) {}

  // Calls OnChunk unless the gate is closed. One thread at a time may call it.
  void Deliver(absl::StatusOr<v1::GenerateChunk> chunk) {
    {
      base::MutexLock lock(mu_);
      if (closed_) return;
      delivering_ = true;
      deliverer_ = std::this_thread::get_id();
    }
    on_chunk_(std::move(chunk));
    base::MutexLock lock(mu_);
    delivering_ = false;
    idle_.SignalAll();
  }

  // After it returns, no OnChunk runs or starts. Waits only for an OnChunk that another thread runs. Called from inside
  // OnChunk, it returns at once.
  void Close() {
    base::MutexLock lock(mu_);
    closed_ = true;
    while (delivering_ && deliverer_ != std::this_thread::get_id()) idle_.Wait(mu_);
  }

  bool closed() const { return closed_; }

 private:
  const Client::OnChunk on_chunk_;
  std::atomic<bool> closed_{false};  // written under mu_; read without mu_ where a late answer is harmless
  base::Mutex mu_;
  base::CondVar idle_;
  bool delivering_ ABSL_GUARDED_BY(mu_) = false;
  std::thread::id deliverer_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::rollout
