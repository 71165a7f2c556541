// A SandboxPool opens sandboxes before they are asked for. Sandboxes are of one kind if they have the same image,
// binds, limits and use of snapshots. The pool does not hold sandboxes that begin at a snapshot.
//
// Each request makes the pool open one more sandbox of its kind, whether it found one or not, and drop the oldest one
// for it. So the pool holds the kinds of the last requests. The first sandboxes are plain.
//
//   Take(kind) ──▶ orders ──▶ filler thread ──make──▶ ready, oldest first ──▶ Take(kind)
//                                                       └──more than size──▶ removed
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

  // `size` >= 1. `make` is called on the filler thread, until the destructor has returned.
  SandboxPool(size_t size, Maker make);
  ~SandboxPool();
  SandboxPool(const SandboxPool&) = delete;
  SandboxPool& operator=(const SandboxPool&) = delete;

  static bool Holds(const SandboxOptions& options) { return options.from == nullptr; }

  // The oldest sandbox of the kind; null = there is none now. REQUIRES: Holds(options).
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
  std::deque<SandboxOptions> orders_ ABSL_GUARDED_BY(mu_);  // at most size_, the newest ones
  std::deque<Ready> ready_ ABSL_GUARDED_BY(mu_);            // oldest first
  bool ends_ ABSL_GUARDED_BY(mu_) = false;
  std::thread filler_;
};

}  // namespace ingot::sandbox
