// The places of a server's connections, shared among those who open them. Internal to the folder.
//
//   a source         who opens connections: an address of clients, or a socket that was handed in (a room's)
//   a full server    a new connection gets the place of another one. That is the oldest whose head is overdue, of the source that
//                    has most of these. Otherwise it is one of the source that has the most connections: one whose head is not
//                    whole, or is idle between requests, or, of a source that has more than the new one's, one whose body is
//                    still to come, or that has sent nothing for less than a second
//   never            one that is being answered
//
// So whoever opens many connections and sends little loses its own ones, not those of others. A source may have a bound of
// places of its own, too. Thread safe.
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

  // Called by the connection. False: the place was taken from it, and it must close.
  bool Set(Stage stage);

 private:
  friend class Places;
  // False: it is in another stage, or was evicted before. Calls `evict` otherwise.
  bool Evict(Stage from);
  // Whether it has been in the stage since before the moment.
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

  // `most`: that the source may have; 0 = as many as there are. `evict` is called at most once, under the lock of all places:
  // it must not block, nor call back. Null: no place can be had.
  std::shared_ptr<Place> Enter(const std::string& source, int most, std::function<void()> evict);
  void Leave(const std::shared_ptr<Place>& place);

  // The bound of a source that is one of many, such as a room.
  int share() const;

 private:
  using Source = std::list<std::shared_ptr<Place>>;
  // For a connection of `newcomer`, which may have none yet: null.
  bool MakeRoom(Source* newcomer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool EvictOverdue(const Source* newcomer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Evicts up to `count` places of the stage that have been in it since before the moment, the longest first. Returns how many.
  size_t EvictFrom(Source& source, Stage stage, size_t count,
                   std::chrono::nanoseconds before = std::chrono::nanoseconds::max())
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The same of all places whose head is overdue: none of it came, or not all.
  size_t EvictOverdueFrom(Source& source, size_t count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // For a source that has its bound.
  bool EvictOwn(Source& source) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Erase(Place& place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Heads that have not come whole since before it are overdue.
  std::chrono::nanoseconds Overdue() const;

  const int most_;
  const base::Clock& clock_;
  base::Mutex mu_;
  int taken_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, Source> sources_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::http
