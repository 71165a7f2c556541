// A RoomPool opens rooms before they are asked for. Rooms are of one kind if their image, binds, limits and use of snapshots
// are the same. A room that begins at a snapshot is of no kind, and is not held.
//
// Each request has a room of its kind opened, whether it found one or not, and the oldest room makes place for it. So the
// pool holds rooms of the kinds that the last requests asked for. The first ones are plain.
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

class RoomPool {
 public:
  using Maker = std::function<absl::StatusOr<std::unique_ptr<Room>>(const RoomOptions& options)>;

  // `size` >= 1. `make` is called on the filler thread, until the destructor has returned.
  RoomPool(size_t size, Maker make);
  ~RoomPool();
  RoomPool(const RoomPool&) = delete;
  RoomPool& operator=(const RoomPool&) = delete;

  static bool Holds(const RoomOptions& options) { return options.from == nullptr; }

  // The oldest room of the kind; null = there is none now. REQUIRES: Holds(options).
  std::unique_ptr<Room> Take(const RoomOptions& options);

 private:
  struct Ready {
    RoomOptions kind;
    std::unique_ptr<Room> room;
  };
  void Fill();

  const size_t size_;
  const Maker make_;
  base::Mutex mu_;
  base::CondVar changed_;
  std::deque<RoomOptions> orders_ ABSL_GUARDED_BY(mu_);  // at most size_, the newest ones
  std::deque<Ready> ready_ ABSL_GUARDED_BY(mu_);         // oldest first
  bool ends_ ABSL_GUARDED_BY(mu_) = false;
  std::thread filler_;
};

}  // namespace ingot::sandbox
