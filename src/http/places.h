// The places of a server's connections, shared among the sources that open them. Internal to the folder.
//
//   a source         opens connections: a client address, or a socket that was handed in (a sandbox's)
//   a full server    a new connection evicts another one: the oldest with an overdue head, from the source that has
//                    most of these. Otherwise, one from the source with the most connections: its head is not whole,
//                    or it is idle between requests. If that source has more than the new connection's source, it may
//                    also be one whose body has not arrived, or that has sent nothing for less than a second
//   never evicted    a connection that is being answered
//
// So a source that opens many connections and sends little loses its own connections, not other sources'. A source may
// also have its own limit of places. Thread safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"

namespace ingot::http {

enum class Stage : uint8_t { kNew, kHead, kBody, kIdle, kAnswer, kEvicted };

// One connection's place.
class Place {
 public:
  // `clock` outlives the place.
  Place(std::string source, std::function<void()> evict, const base::Clock& clock)
      : source_(std::move(source)), evict_(std::move(evict)), clock_(clock) {}

  // Called by the connection. False: it was evicted and must close.
  bool Set(Stage stage);

 private:
  friend class Places;
  // False: it is in another stage, or was evicted before. Calls `evict` otherwise.
  bool Evict(Stage from);
  // True if it has been in the stage since before `before`.
  bool IsIn(Stage stage, std::chrono::nanoseconds before) const { return stage_ == stage && since_.load() < before; }

  const std::string source_;
  const std::function<void()> evict_;
  const base::Clock& clock_;
  std::atomic<Stage> stage_{Stage::kNew};
  std::atomic<std::chrono::nanoseconds> since_{clock_.Now()};
  std::list<std::shared_ptr<Place>>::iterator at_;  // of Places, under its lock
  bool is_in_ = false;                              // the same
};

class Places {
 public:
  // `clock` outlives the places.
  explicit Places(int most, const base::Clock& clock = base::Clock::Real()) : most_(most), clock_(clock) {}

  // `most`: places that the source may have; 0 = all of them. `evict` is called at most once, under the lock of all
  // places: it must not block or call back. Null: no place is available.
  std::shared_ptr<Place> Enter(const std::string& source, int most, std::function<void()> evict);
  void Leave(const std::shared_ptr<Place>& place);

  // The limit of a source that is one of many, such as a sandbox.
  int share() const;

 private:
  using Source = std::list<std::shared_ptr<Place>>;
  // For a connection of `newcomer`; null = that source has no connections.
  bool MakeRoom(Source* newcomer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool EvictOverdue(const Source* newcomer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Evicts up to `count` places that have been in the stage since before `before`, the longest first. Returns how many.
  size_t EvictFrom(Source& source, Stage stage, size_t count,
                   std::chrono::nanoseconds before = std::chrono::nanoseconds::max())
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The same for places whose head is overdue: no part of it arrived, or not all of it.
  size_t EvictOverdueFrom(Source& source, size_t count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // For a source that has reached its limit.
  bool EvictOwn(Source& source) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Erase(Place& place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // A head that began before this time and is not whole is overdue.
  std::chrono::nanoseconds Overdue() const;

  const int most_;
  const base::Clock& clock_;
  base::Mutex mu_;
  int taken_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, Source> sources_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::http
