// Opens sandboxes in advance. Sandboxes with the same image, bind mounts, limits, and snapshot setting are of the same
// kind. Sandboxes that start from a snapshot are not pooled.
//
// After each request, the pool opens one more sandbox of the requested kind, even if none was available. If that makes
// the pool too large, it removes the oldest sandbox. So the pool contains the most recently requested kinds. At
// startup, it opens sandboxes with default options.
//
//   Acquire(kind) ──▶ orders ──▶ filler thread ──make──▶ ready, oldest first ──▶ Acquire(kind)
//                                                          └──more than size──▶ removed
//
// Thread safe.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "sandbox/substrate.h"

namespace ingot::sandbox {

class SandboxPool {
 public:
  using Maker = std::function<absl::StatusOr<std::unique_ptr<Sandbox>>(const SandboxOptions& options)>;

  // `make` is called on the filler thread until the destructor has returned. REQUIRES: `size` >= 1.
  SandboxPool(size_t size, Maker make);
  ~SandboxPool();
  SandboxPool(const SandboxPool&) = delete;
  SandboxPool& operator=(const SandboxPool&) = delete;

  static bool Holds(const SandboxOptions& options) { return options.from == nullptr; }

  // Returns the oldest sandbox of the kind, or null if none is ready. REQUIRES: Holds(options).
  std::unique_ptr<Sandbox> Acquire(const SandboxOptions& options);

 private:
  struct Ready {
    SandboxOptions kind;
    std::unique_ptr<Sandbox> sandbox;
  };
  void Fill();

  const size_t size_;
  const Maker make_;
  base::Mutex mu_;
  base::CondVar changed_;
  std::deque<SandboxOptions> orders_ ABSL_GUARDED_BY(mu_);  // the newest requests, at most size_
  std::deque<Ready> ready_ ABSL_GUARDED_BY(mu_);            // oldest first
  bool ends_ ABSL_GUARDED_BY(mu_) = false;
  std::thread filler_;
};

}  // namespace ingot::sandbox
