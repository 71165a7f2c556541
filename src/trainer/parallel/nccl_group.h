// Creates an NCCL process group for exchanges between devices. The function is in libingot_cuda.so, the only library
// that links NCCL, and is looked up by its symbol. The C name hides C++ types, so the program and the library must come
// from the same build (kernels/cuda/probe.h).
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>

#include "trainer/parallel/c10d_types.h"

namespace ingot::trainer {

inline constexpr char kNcclGroupSymbol[] = "ingot_cuda_nccl_group";
// Interval between checks of whether a device is done. Waiting with a timeout would abort NCCL's work.
inline constexpr std::chrono::microseconds kDevicePoll{50};

struct NcclGroup {
  c10::intrusive_ptr<c10d::Backend> backend;
  std::function<void()> abort;
};

}  // namespace ingot::trainer

// Sets `group`, for tensors on devices. Connects at the first exchange. Throws c10d's exceptions.
extern "C" void ingot_cuda_nccl_group(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                      ingot::trainer::NcclGroup* group);
