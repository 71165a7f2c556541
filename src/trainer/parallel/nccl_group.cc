// Built only into libingot_cuda.so.
#define USE_C10D_NCCL 1

#include "trainer/parallel/nccl_group.h"

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

// An exchange has no time limit, because a rank's compute time is unknown here, and Liveness detects dead ranks.
void ingot_cuda_nccl_group(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                           ingot::trainer::NcclGroup* group) {
  constexpr std::chrono::hours kNoLimit{24 * 365};
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = kNoLimit;
  auto nccl = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options);
  group->backend = nccl;
  group->abort = [nccl] { nccl->abort(); };
}
