// The exchanges between devices, in libingot_cuda.so, which alone links NCCL: what it gives to a program that opened
// it. C++ types behind a C name: both are of one build (kernels/cuda/probe.h says so).
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <functional>

namespace ingot::trainer {

inline constexpr char kNcclGroupSymbol[] = "ingot_cuda_nccl_group";

struct NcclGroup {
  c10::intrusive_ptr<c10d::Backend> backend;
  std::function<void()> abort;
};

}  // namespace ingot::trainer

// Fills in `group` for tensors on devices. Connects at the first exchange; throws what c10d does.
extern "C" void ingot_cuda_nccl_group(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                      ingot::trainer::NcclGroup* group);
