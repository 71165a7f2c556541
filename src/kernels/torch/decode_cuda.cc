#include "kernels/torch/decode_cuda.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include <limits>

#include "kernels/cuda/decode_launch.h"
#include "kernels/torch/plan_upload.h"
#include "kernels/torch/typed.h"

namespace ingot::kernels {

void DecodeOnCuda(const cuda::Shape& shape, std::span<const AttentionSequence> sequences, const at::Tensor& q,
                  const at::Tensor& k, const at::Tensor& v, const at::Tensor& sinks, const at::Tensor& out,
                  const at::Tensor& lse) {
  const cuda::DecodePlan plan({shape.heads, shape.kv_heads, shape.head_dim, shape.scale, shape.window}, sequences,
                              shape.page_size);
  TORCH_CHECK(plan.items().size() < std::numeric_limits<int32_t>::max(),
              "tree attention on CUDA: too many chunks of keys for one call");
  const at::Tensor memory = UploadPlan(plan, q);
  const at::Tensor partial = at::empty({plan.slots() * shape.heads, shape.head_dim}, q.options().dtype(at::kFloat));
  const at::Tensor state = at::empty({plan.slots() * shape.heads, 2}, partial.options());
  cuda::ForwardArgs<BFloat16> args{shape,
                                   {},
                                   Read<BFloat16>(q),
                                   Read<BFloat16>(k),
                                   Read<BFloat16>(v),
                                   Read<float>(sinks),
                                   Write<BFloat16>(out),
                                   Write<float>(lse)};
  C10_CUDA_CHECK(
      cuda::LaunchDecode({cuda::MakeMmaArgs(args), plan.View(Read<std::byte>(memory)), std::ssize(plan.queries()),
                          Write<float>(partial), Write<cuda::DecodeState>(state)},
                         std::ssize(plan.items()), c10::cuda::getCurrentCUDAStream()));
}

}  // namespace ingot::kernels
