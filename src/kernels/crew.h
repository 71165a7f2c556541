// A Crew is the threads that compute for one calling thread. The loops of a small model last microseconds: waking a
// sleeping thread between two loops would take longer than it computes. So a crew spins between loops, for a bounded
// time.
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
  // `threads` includes the caller. Throws std::system_error if a thread cannot start. Threads inherit the caller's
  // cores: OMP_PROC_BIND and the like, which bind the caller to one core, bind all of them to it.
  explicit Crew(int threads);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  int threads() const { return static_cast<int>(others_.size()) + 1; }

  // ParallelFor: one range a thread. Rethrows a range's exception after all have ended. Not thread safe; do not call it
  // from within a range.
  void Run(int64_t count, const std::function<void(int64_t begin, int64_t end)>& body);

 private:
  struct Other {
    alignas(64) std::atomic<uint32_t> round{0};  // moves with each loop that has a range for it
    std::thread thread;
  };

  void Work(Other& own, int64_t place);
  void RunRange(int64_t place);
  static void Start(Other& other);
  void Stop();

  // The loop, written before `round` moves and read after it.
  const std::function<void(int64_t, int64_t)>* body_ = nullptr;
  int64_t count_ = 0, share_ = 0;
  bool stopping_ = false;

  alignas(64) std::atomic<uint32_t> at_work_{0};  // other threads whose range has not ended
  std::mutex mu_;
  std::exception_ptr error_;  // the first
  std::vector<std::unique_ptr<Other>> others_;
};

}  // namespace ingot::kernels
