// Owns the threads that compute for one calling thread. A small model's loops take microseconds, and waking a sleeping
// thread between two loops would take longer. So the threads spin between loops, for a limited time.
//
// A loop never waits for a thread that has not started on it. Threads take ranges in order, and the caller computes the
// ranges that no other thread has taken. So a loop is not delayed if other processes occupy the other threads' cores.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace ingot::kernels {

class Crew {
 public:
  // `threads` includes the caller. Throws std::system_error if a thread cannot start. Threads inherit the caller's CPU
  // affinity, so OMP_PROC_BIND and similar settings, which bind the caller to one core, bind all threads to it.
  explicit Crew(int threads);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  int threads() const { return static_cast<int>(others_.size()) + 1; }
  // Returns how many of the other threads are not asleep at this moment.
  int awake() const { return awake_.load(std::memory_order_relaxed); }

  // Adds threads until there are at least `threads`. Throws std::system_error if one cannot start, and keeps the
  // others. Must not be called from within a range.
  void Grow(int threads);

  // A ParallelFor with one range per thread, on at most `most` threads (0 = all). Rethrows an exception from a range
  // after all ranges have ended. Not thread safe. Must not be called from within a range.
  void Run(int64_t count, const std::function<void(int64_t begin, int64_t end)>& body, int most = 0);

 private:
  struct Other {
    alignas(64) std::atomic<uint32_t> round{0};  // changes with each loop that has a range for this thread
    std::thread thread;
  };

  void Work(Other& own);
  // Takes the next range of the current loop; -1 = all are taken.
  int64_t Take();
  void RunRange(int64_t place);
  static void Start(Other& other);
  void Stop();

  // The current loop, written before `ranges_` and read after a range was taken.
  const std::function<void(int64_t, int64_t)>* body_ = nullptr;
  int64_t count_ = 0, share_ = 0;
  std::atomic<bool> stopping_{false};

  // The loop's number (32 bits), its next range (16), and its number of ranges (16). In one word, so that a thread that
  // wakes up late cannot take a range of a later loop by mistake.
  alignas(64) std::atomic<uint64_t> ranges_{0};
  alignas(64) std::atomic<uint32_t> left_{0};  // ranges that have not ended
  std::atomic<int32_t> awake_{0};
  std::mutex mu_;
  std::exception_ptr error_;  // the first exception
  std::vector<std::unique_ptr<Other>> others_;
};

}  // namespace ingot::kernels
