// Hashes the slices of tensors on a device, as weights/tensor_checksum.h does on the CPU (cuda/digest.cuh). A torch operator
// that libingot_cuda.so implements. Throws c10::Error.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace ingot::kernels {

inline constexpr int64_t kSliceDigestBytes = int64_t{1} << 17;  // of a slice
inline constexpr int64_t kSliceDigestLeast = 241;               // a shorter slice has no digest

// Returns the keys for SliceDigestsOp, int64 on `device`, from base::ChecksumSecret.
at::Tensor SliceDigestKeys(std::span<const std::byte> secret, at::Device device);

// Writes the digest of each slice into `digests`, int64 [slices]. Leaves the entries of short slices. `tensor` is dense, with an
// even number of bytes.
void SliceDigestsOp(const at::Tensor& tensor, const at::Tensor& keys, const at::Tensor& digests);

using SliceDigestsSignature = void(const at::Tensor& tensor, const at::Tensor& keys, const at::Tensor& digests);

}  // namespace ingot::kernels
