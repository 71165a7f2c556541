// The gate of an episode. Requests pass it before they make calls. They wait there while a snapshot is taken, and in a
// trunk at its fork. Not thread safe: Episode calls it under its lock. TakeWaiting's functions are called without the
// lock.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace ingot::gateway {

class EpisodeGate {
 public:
  // `fork_at`: EpisodeLimits.fork_at; 0 = the episode is not a trunk.
  explicit EpisodeGate(int32_t fork_at) : fork_at_(fork_at) {}

  bool AtFork(int32_t calls_made) const { return fork_at_ > 0 && calls_made >= fork_at_; }
  bool IsShut(int32_t calls_made) const { return shut_ > 0 || AtFork(calls_made); }
  // Each Shut is followed by one Open, each Pass by one Leave.
  void Shut() { ++shut_; }
  void Open() { --shut_; }
  void Pass() { ++passed_; }
  void Leave() { --passed_; }
  int passed() const { return passed_; }  // requests that have not left
  void Wait(std::function<void()> resume) { waiting_.push_back(std::move(resume)); }
  std::vector<std::function<void()>> TakeWaiting() { return std::exchange(waiting_, {}); }
  // True once, if a request waits: the trunk is to be forked.
  bool TakeFork() { return !waiting_.empty() && !std::exchange(fork_taken_, true); }

 private:
  const int32_t fork_at_;
  int passed_ = 0;
  int shut_ = 0;
  bool fork_taken_ = false;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace ingot::gateway
