// Copies a work list of kernels/cuda to a device.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>

namespace ingot::kernels {

// Returns the packed plan on the device of `like`. The copy is queued on the current stream, before the kernels that
// read it. The memory returns to a stream-aware allocator.
template <typename Plan>
at::Tensor UploadPlan(const Plan& plan, const at::Tensor& like) {
  const auto bytes = static_cast<int64_t>(plan.packed_bytes());
  const at::Tensor host = at::empty({bytes}, at::dtype(at::kByte).pinned_memory(true));
  plan.Pack(static_cast<std::byte*>(host.mutable_data_ptr()));
  return host.to(like.device(), /*non_blocking=*/true);
}

}  // namespace ingot::kernels
