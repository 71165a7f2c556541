#include "kernels/torch/threads.h"

#include <ATen/Parallel.h>

#include <memory>

#include "kernels/crew.h"

namespace ingot::kernels {
namespace {

// Returns the calling thread's crew, which has at::get_num_threads() threads.
Crew& OwnCrew() {
  thread_local std::unique_ptr<Crew> crew;
  const int threads = at::get_num_threads();
  if (crew == nullptr || crew->threads() != threads) {
    crew.reset();
    crew = std::make_unique<Crew>(threads);
  }
  return *crew;
}

// Whether this thread is computing a range of a loop.
thread_local bool in_loop = false;

struct InLoop {
  InLoop() { in_loop = true; }
  ~InLoop() { in_loop = false; }
};

}  // namespace

ParallelFor TorchParallelFor() {
  return [](int64_t count, const std::function<void(int64_t, int64_t)>& body) {
    if (count <= 1 || in_loop || at::in_parallel_region() || at::get_num_threads() <= 1) return Serial(count, body);
    OwnCrew().Run(count, [&](int64_t begin, int64_t end) {
      const InLoop inside;
      body(begin, end);
    });
  };
}

void UseThreads(int threads) {
  // ATen stores the number twice: for the headers compiled here, and in the library. On first use on a thread, each
  // copy adopts the number that any thread set last, so that first use must precede this setting.
  at::internal::lazy_init_num_threads();
  if (at::get_num_threads() != threads) at::set_num_threads(threads);
}

}  // namespace ingot::kernels
