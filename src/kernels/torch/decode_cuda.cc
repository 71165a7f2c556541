#include "kernels/torch/decode_cuda.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/cuda/decode_launch.h"
#include "kernels/torch/plan_upload.h"
#include "kernels/torch/typed.h"

namespace ingot::kernels {
namespace {

// The plan of a piece of the batch, and its copy on the device of `q`.
struct Piece {
  cuda::DecodePlan plan;
  at::Tensor memory;
  cuda::DecodeView view;

  Piece(const cuda::Shape& s, std::span<const AttentionSequence> sequences, const at::Tensor& q)
      : plan({s.heads, s.kv_heads, s.head_dim, s.scale, s.window}, sequences, s.page_size),
        memory(UploadPlan(plan, q)),
        view(plan.View(Read<std::byte>(memory))) {
    TORCH_CHECK(plan.items().size() < std::numeric_limits<int32_t>::max(),
                "tree attention on CUDA: too many chunks of keys for one call");
  }
};

// A step of decode has one piece. With exact numerics, the queries of long prompts and of the trainer's paths have
// several, so that the sums of their chunks need little memory.
struct DevicePlan {
  std::vector<Piece> pieces;
  int64_t slots = 0;  // the most of a piece

  DevicePlan(const cuda::Shape& s, std::span<const AttentionSequence> sequences, const at::Tensor& q, bool exact) {
    constexpr int64_t kMostBytes = 64 << 20;
    const int64_t slot_bytes = s.heads * (s.head_dim + 2) * static_cast<int64_t>(sizeof(float));
    const int64_t most = exact ? std::max<int64_t>(1, kMostBytes / slot_bytes) : std::numeric_limits<int64_t>::max();
    for (const auto& piece : cuda::CutDecodes(sequences, s.window, most)) {
      slots = std::max(slots, pieces.emplace_back(s, piece, q).plan.slots());
    }
  }
};

// As PlanOf in tree_attention_cuda.cc, which has 0 or 1 in place of kDecode.
std::shared_ptr<const DevicePlan> DecodePlanOf(const OptionalPlans& plans, const cuda::Shape& s,
                                               std::span<const AttentionSequence> sequences, const at::Tensor& q) {
  const bool exact = plans.has_value() && (*plans)->exact();
  const auto make = [&] { return std::make_shared<const DevicePlan>(s, sequences, q, exact); };
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
  const int64_t slots = on_device->slots * shape.heads;
  const at::Tensor partial = at::empty({slots, shape.head_dim}, q.options().dtype(at::kFloat));
  const at::Tensor state = at::empty({slots, 2}, partial.options());
  const cuda::ForwardArgs<BFloat16> args{shape,
                                         {},
                                         Read<BFloat16>(q),
                                         Read<BFloat16>(k),
                                         Read<BFloat16>(v),
                                         Read<float>(sinks),
                                         Write<BFloat16>(out),
                                         Write<float>(lse)};
  for (const Piece& piece : on_device->pieces) {
    C10_CUDA_CHECK(cuda::LaunchDecode({cuda::MakeMmaArgs(args), piece.view, std::ssize(piece.plan.queries()),
                                       Write<float>(partial), Write<cuda::DecodeState>(state)},
                                      std::ssize(piece.plan.items()), c10::cuda::getCurrentCUDAStream()));
  }
}

}  // namespace ingot::kernels
