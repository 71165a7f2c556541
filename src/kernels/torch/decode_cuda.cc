#include "kernels/torch/decode_cuda.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include <iterator>
#include <limits>
#include <memory>

#include "kernels/cuda/decode_launch.h"
#include "kernels/torch/plan_upload.h"
#include "kernels/torch/typed.h"

namespace ingot::kernels {
namespace {

// A plan and its copy on the device of `q`.
struct DevicePlan {
  cuda::DecodePlan plan;
  at::Tensor memory;
  cuda::DecodeView view;

  DevicePlan(const cuda::Shape& s, std::span<const AttentionSequence> sequences, const at::Tensor& q)
      : plan({s.heads, s.kv_heads, s.head_dim, s.scale, s.window}, sequences, s.page_size),
        memory(UploadPlan(plan, q)),
        view(plan.View(Read<std::byte>(memory))) {
    TORCH_CHECK(plan.items().size() < std::numeric_limits<int32_t>::max(),
                "tree attention on CUDA: too many chunks of keys for one call");
  }
};

// As PlanOf in tree_attention_cuda.cc, which has 0 or 1 in place of kDecode.
std::shared_ptr<const DevicePlan> DecodePlanOf(const OptionalPlans& plans, const cuda::Shape& s,
                                               std::span<const AttentionSequence> sequences, const at::Tensor& q) {
  const auto make = [&] { return std::make_shared<const DevicePlan>(s, sequences, q); };
  if (!plans.has_value()) return make();
  constexpr int64_t kDecode = 2;
  const int64_t stream = c10::cuda::getCurrentCUDAStream().id();
  return (*plans)->Get<DevicePlan>(
      {q.device().index(), stream, q.size(0), 0, s.group, s.window, s.page_size, kDecode, cuda::kDecodeRows, 0}, make);
}

}  // namespace

void DecodeOnCuda(const cuda::Shape& shape, std::span<const AttentionSequence> sequences, const at::Tensor& q,
                  const at::Tensor& k, const at::Tensor& v, const at::Tensor& sinks, const at::Tensor& out,
                  const at::Tensor& lse, const OptionalPlans& plans) {
  const auto on_device = DecodePlanOf(plans, shape, sequences, q);
  const cuda::DecodePlan& plan = on_device->plan;
  const at::Tensor partial = at::empty({plan.slots() * shape.heads, shape.head_dim}, q.options().dtype(at::kFloat));
  const at::Tensor state = at::empty({plan.slots() * shape.heads, 2}, partial.options());
  const cuda::ForwardArgs<BFloat16> args{shape,
                                         {},
                                         Read<BFloat16>(q),
                                         Read<BFloat16>(k),
                                         Read<BFloat16>(v),
                                         Read<float>(sinks),
                                         Write<BFloat16>(out),
                                         Write<float>(lse)};
  C10_CUDA_CHECK(cuda::LaunchDecode({cuda::MakeMmaArgs(args), on_device->view, std::ssize(plan.queries()),
                                     Write<float>(partial), Write<cuda::DecodeState>(state)},
                                    std::ssize(plan.items()), c10::cuda::getCurrentCUDAStream()));
}

}  // namespace ingot::kernels
