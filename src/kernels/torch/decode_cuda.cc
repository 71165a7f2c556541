#include "kernels/torch/decode_cuda.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/cuda/decode_launch.h"
#include "kernels/torch/decode_step.h"
#include "kernels/torch/operands.h"
#include "kernels/torch/plan_upload.h"
#include "kernels/torch/tree_attention_checks.h"
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

at::Tensor DecodeAttentionOnCuda(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                                 int64_t window, const std::optional<at::Tensor>& sinks_in, const at::Tensor& plan,
                                 int64_t queries, int64_t entries) {
  CheckNumbers(q, k, v, scale, window, 0, sinks_in.value_or(at::Tensor()));
  TORCH_CHECK(q.dim() == 3 && k.dim() == 4 && q.is_contiguous() && k.is_contiguous() && v.is_contiguous(),
              "decode_attention: q must be dense [rows, heads, head_dim], and pages [pages, page_size, kv_heads, "
              "head_dim], got ",
              q.sizes(), " and ", k.sizes());
  const int64_t heads = q.size(1), kv_heads = k.size(2), head_dim = q.size(2);
  const cuda::Shape shape{heads,
                          kv_heads,
                          head_dim,
                          heads / kv_heads,
                          window,
                          k.size(1),
                          heads * head_dim,
                          kv_heads * head_dim,
                          kv_heads * head_dim,
                          scale};
  TORCH_CHECK(q.scalar_type() == at::kBFloat16 && cuda::UsesMma<BFloat16>(shape),
              "decode_attention takes bf16 heads of at most 128 columns in pieces of 8, got ", q.scalar_type(), " ",
              q.sizes());
  const cuda::DecodeRoom room{queries, entries};
  CheckDense("decode_attention", "the plan", plan, q, {room.bytes(shape.page_size)}, at::kByte);
  const c10::cuda::CUDAGuard guard(q.device());
  const at::Tensor sinks = ComputableSinks(sinks_in, q), out = at::empty_like(q);
  if (entries == 0 || q.numel() == 0) return out;
  const at::Tensor partial = at::empty({entries * heads, head_dim}, q.options().dtype(at::kFloat));
  const at::Tensor state = at::empty({entries * heads, 2}, partial.options());
  const cuda::ForwardArgs<BFloat16> args{
      shape,  {}, Read<BFloat16>(q), Read<BFloat16>(k), Read<BFloat16>(v), Read<float>(sinks), Write<BFloat16>(out),
      nullptr};
  C10_CUDA_CHECK(cuda::LaunchDecode({cuda::MakeMmaArgs(args), room.View(Read<std::byte>(plan)), queries,
                                     Write<float>(partial), Write<cuda::DecodeState>(state)},
                                    entries, c10::cuda::getCurrentCUDAStream()));
  return out;
}

TORCH_LIBRARY_IMPL(ingot, CUDA, m) { m.impl("decode_attention", DecodeAttentionOnCuda); }

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
