// Implements the CUDA kernel of slice_digests. Part of libingot_cuda.so, which registers it when it is loaded.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/cuda/digest_launch.h"
#include "kernels/torch/digest.h"
#include "kernels/torch/typed.h"

namespace ingot::kernels {
namespace {

void SliceDigestsOnCuda(const at::Tensor& tensor, const at::Tensor& keys, const at::Tensor& digests) {
  cuda::DigestArgs args{};
  args.bytes = static_cast<const uint8_t*>(tensor.const_data_ptr());
  args.size = static_cast<int64_t>(tensor.nbytes());
  args.digests = Write<uint64_t>(digests);
  args.keys = Read<uint64_t>(keys);
  TORCH_CHECK(tensor.is_contiguous() && args.size % 2 == 0 && reinterpret_cast<uintptr_t>(args.bytes) % 8 == 0,
              "slice_digests: the tensor must be dense, at a multiple of 8, with an even number of bytes, got ",
              tensor.scalar_type(), " ", tensor.sizes());
  const auto check = [&](const char* name, const at::Tensor& t, int64_t size) {
    TORCH_CHECK(t.scalar_type() == at::kLong && t.is_contiguous() && t.numel() == size && t.device() == tensor.device(),
                "slice_digests: ", name, " must be dense, int64 on ", tensor.device(), " with ", size, " entries, got ",
                t.scalar_type(), " ", t.sizes(), " on ", t.device());
  };
  check("the keys", keys, cuda::kDigestKeys);
  check("the digests", digests, args.slices());
  const c10::cuda::CUDAGuard guard(tensor.device());
  C10_CUDA_CHECK(cuda::LaunchDigest(args, c10::cuda::getCurrentCUDAStream()));
}

TORCH_LIBRARY_IMPL(ingot, CUDA, m) { m.impl("slice_digests", SliceDigestsOnCuda); }

}  // namespace
}  // namespace ingot::kernels
