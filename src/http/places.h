// Allocates a server's connection places among the sources that open connections. Internal to this directory.
//
//   a source         opens connections: a client address, or a socket that was passed in (a sandbox's)
//   a full server    evicts a connection for each new one: first the oldest with an overdue head, from the source with
//                    the most of those. Otherwise, one with an incomplete head, or idle between requests, from the
//                    source with the most connections. If that source has more than the new one's source, also one
//                    whose body has not arrived, or a new one that has not sent anything
//   never evicted    a connection whose request is being answered
//
// So a source that opens many connections and sends little loses its own connections, not other sources'. A source may
// also have its own limit on places. Thread safe.
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
  // `clock` must outlive the place.
  Place(std::string source, std::function<void()> evict, const base::Clock& clock)
      : source_(std::move(source)), evict_(std::move(evict)), clock_(clock) {}

  // Called by the connection. Returns false if the connection was evicted and must close.
  bool Set(Stage stage);

 private:
  friend class Places;
  // Calls `evict`. Returns false without calling it if the place is in another stage or has already been evicted.
  bool Evict(Stage from);
  // Returns true if the place has been in this stage since before `before`.
  bool IsIn(Stage stage, std::chrono::nanoseconds before) const { return stage_ == stage && since_.load() < before; }

  const std::string source_;
  const std::function<void()> evict_;
  const base::Clock& clock_;
  std::atomic<Stage> stage_{Stage::kNew};
  std::atomic<std::chrono::nanoseconds> since_{clock_.Now()};
  std::list<std::shared_ptr<Place>>::iterator at_;  // position in Places, guarded by its lock
  bool is_in_ = false;                              // guarded by the same lock
};

class Places {
 public:
  // `clock` must outlive the places.
  explicit Places(int most, const base::Clock& clock = base::Clock::Real()) : most_(most), clock_(clock) {}

  // `most` limits the source's places; 0 = no separate limit. `evict` is called at most once, with the lock of all
  // places held. It must not block or call back. Returns null if no place is available.
  std::shared_ptr<Place> Enter(const std::string& source, int most, std::function<void()> evict);
  void Leave(const std::shared_ptr<Place>& place);

  // Returns the limit for a source that is one of many, such as a sandbox.
  int share() const;

 private:
  using Source = std::list<std::shared_ptr<Place>>;
  // Makes room for a connection from `newcomer`; null = that source has no connections.
  bool MakeRoom(Source* newcomer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool EvictOverdue(const Source* newcomer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Evicts up to `count` places that have been in this stage since before `before`, longest first. Returns how
  // many.
  size_t EvictFrom(Source& source, Stage stage, size_t count,
                   std::chrono::nanoseconds before = std::chrono::nanoseconds::max())
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Same as EvictFrom, but for places whose head is overdue and has not arrived or is incomplete.
  size_t EvictOverdueFrom(Source& source, size_t count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Evicts a connection from a source that has reached its own limit.
  bool EvictOwn(Source& source) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Erase(Place& place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Returns the cutoff time. An incomplete head that started before it is overdue.
  std::chrono::nanoseconds Overdue() const;

  const int most_;
  const base::Clock& clock_;
  base::Mutex mu_;
  int taken_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, Source> sources_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::http
