// An episode's gate. Requests pass it before they make calls. They wait there while a snapshot is taken and, in a
// trunk, at the fork. Not thread safe: Episode holds its lock while calling it. Functions returned by TakeWaiting are
// called without the lock.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace ingot::gateway {

class EpisodeGate {
 public:
  // `fork_at` is EpisodeLimits.fork_at; 0 = not a trunk.
  explicit EpisodeGate(int32_t fork_at) : fork_at_(fork_at) {}

  bool AtFork(int32_t calls_made) const { return fork_at_ > 0 && calls_made >= fork_at_; }
  bool IsShut(int32_t calls_made) const { return shut_ > 0 || AtFork(calls_made); }
  // Each Shut must be followed by one Open, and each Pass by one Leave.
  void Shut() { ++shut_; }
  void Open() { --shut_; }
  void Pass() { ++passed_; }
  void Leave() { --passed_; }
  int passed() const { return passed_; }  // requests that passed and have not left
  void Wait(std::function<void()> resume) { waiting_.push_back(std::move(resume)); }
  std::vector<std::function<void()>> TakeWaiting() { return std::exchange(waiting_, {}); }
  // Returns true once, when a request is waiting. The trunk must then be forked.
  bool TakeFork() { return !waiting_.empty() && !std::exchange(fork_taken_, true); }

 private:
  const int32_t fork_at_;
  int passed_ = 0;
  int shut_ = 0;
  bool fork_taken_ = false;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace ingot::gateway
