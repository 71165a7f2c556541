#include "kernels/torch/threads.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <optional>
#include <system_error>
#include <thread>

#include "kernels/crew.h"

namespace ingot::kernels {
namespace {

thread_local ComputeMember* computing = nullptr;  // of the calling thread's Computing; null = none
// Whether this thread is computing a range of a loop.
thread_local bool in_loop = false;

struct InLoop {
  InLoop() { in_loop = true; }
  ~InLoop() { in_loop = false; }
};

Crew& OwnCrew() {
  thread_local Crew crew(1);
  return crew;
}

// Returns the number of threads for a loop: `own`, and those that can be borrowed.
int ThreadsOfLoop(Crew& crew, int own) {
  thread_local int most = std::numeric_limits<int>::max();  // that the system allows
  int threads = own;
  if (computing != nullptr) threads = std::max(own, computing->threads() + computing->Borrow(crew.awake()));
  threads = std::max(own, std::min(threads, most));
  try {
    crew.Grow(threads);
  } catch (const std::system_error&) {
    if (crew.threads() < own) throw;  // without a loan, the loop has its own threads
    most = crew.threads();            // not tried again in every loop
  }
  return std::min(threads, crew.threads());
}

// Counts the time that threads other than the caller spend in the loop, except for that of `own` threads.
class BorrowedTime {
 public:
  BorrowedTime(int threads, int own)
      : share_(static_cast<double>(threads - own) / (threads - 1)), caller_(std::this_thread::get_id()) {}
  void Run(int64_t begin, int64_t end, const std::function<void(int64_t, int64_t)>& body) {
    const auto start = std::chrono::steady_clock::now();
    body(begin, end);
    if (std::this_thread::get_id() == caller_) return;
    member_->CountBorrowed(std::chrono::duration_cast<std::chrono::nanoseconds>(
        share_ * std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start)));
  }

 private:
  const double share_;
  const std::thread::id caller_;
  ComputeMember* const member_ = computing;
};

}  // namespace

ParallelFor TorchParallelFor() {
  return [](int64_t count, const std::function<void(int64_t, int64_t)>& body) {
    if (count <= 1 || in_loop || at::in_parallel_region()) return Serial(count, body);
    const int own = at::get_num_threads();
    if (own <= 1 && computing == nullptr) return Serial(count, body);
    Crew& crew = OwnCrew();
    const int threads = ThreadsOfLoop(crew, own);
    std::optional<BorrowedTime> borrowed;
    if (threads > own) borrowed.emplace(threads, own);
    crew.Run(
        count,
        [&](int64_t begin, int64_t end) {
          const InLoop inside;
          borrowed ? borrowed->Run(begin, end, body) : body(begin, end);
        },
        threads);
  };
}

Computing::Computing(ComputeMember* member) : member_(member), before_(computing) {
  if (member_ == nullptr) return;
  computing = member_;
  member_->Begin();
}

Computing::~Computing() {
  if (member_ == nullptr) return;
  member_->End();
  computing = before_;
}

void UseThreads(int threads) {
  // ATen stores the number twice: for the headers compiled here, and in the library. On first use on a thread, each
  // copy adopts the number that any thread set last, so that first use must precede this setting.
  at::internal::lazy_init_num_threads();
  if (at::get_num_threads() != threads) at::set_num_threads(threads);
}

}  // namespace ingot::kernels
