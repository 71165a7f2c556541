// Passes a request's chunks to its OnChunk until the request's handle closes the gate. Used by the in-process engine,
// the gRPC client, and EngineSet. Thread safe.
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

  // Calls OnChunk unless the gate is closed. Only one thread at a time may call this.
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

  // Closes the gate. When it returns, OnChunk is not running and will not be called again. Waits only if another thread
  // is running OnChunk. Returns immediately if called from inside OnChunk.
  void Close() {
    base::MutexLock lock(mu_);
    closed_ = true;
    while (delivering_ && deliverer_ != std::this_thread::get_id()) idle_.Wait(mu_);
  }

  bool closed() const { return closed_; }

 private:
  const Client::OnChunk on_chunk_;
  std::atomic<bool> closed_{false};  // written with mu_ held; read without mu_ where a stale value is harmless
  base::Mutex mu_;
  base::CondVar idle_;
  bool delivering_ ABSL_GUARDED_BY(mu_) = false;
  std::thread::id deliverer_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::rollout
