// The exchanges between devices: NCCL's process group, from libingot_cuda.so, the only part that links NCCL. A program
// that opened the library looks the function up by its symbol. The C name hides C++ types, so program and library must
// come from one build (kernels/cuda/probe.h).
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>

namespace ingot::trainer {

inline constexpr char kNcclGroupSymbol[] = "ingot_cuda_nccl_group";
// Interval at which a wait asks whether a device is done: a wait with a limit would abort NCCL's work.
inline constexpr std::chrono::microseconds kDevicePoll{50};

struct NcclGroup {
  c10::intrusive_ptr<c10d::Backend> backend;
  std::function<void()> abort;
};

}  // namespace ingot::trainer

// Fills in `group`, for tensors on devices. Connects at the first exchange; throws c10d's exceptions.
extern "C" void ingot_cuda_nccl_group(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                      ingot::trainer::NcclGroup* group);
