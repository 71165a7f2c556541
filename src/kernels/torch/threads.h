// Sets and uses the number of compute threads, which ATen stores per calling thread.
#pragma once

#include "kernels/compute_share.h"
#include "kernels/parallel_for.h"

namespace ingot::kernels {

// Sets the number of threads that compute for the calling thread, regardless of other threads' settings.
void UseThreads(int threads);

// Returns a ParallelFor that runs loops on the calling thread's own Crew, with at::get_num_threads() threads. A nested
// loop runs on the thread that calls it. While a Computing exists on the calling thread, loops also use the threads that
// its member can borrow.
ParallelFor TorchParallelFor();

// While this exists, `member` computes on the calling thread, from Begin to End. Null = no effect. Both must outlive
// the thread's loops.
class Computing {
 public:
  explicit Computing(ComputeMember* member);
  ~Computing();
  Computing(const Computing&) = delete;
  Computing& operator=(const Computing&) = delete;

 private:
  ComputeMember* const member_;
  ComputeMember* const before_;  // of an enclosing Computing
};

}  // namespace ingot::kernels
