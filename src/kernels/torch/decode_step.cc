#include "kernels/torch/decode_step.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "kernels/torch/operands.h"

namespace ingot::kernels {
namespace {

TORCH_LIBRARY_FRAGMENT(ingot, m) {
  m.def(
      "decode_attention(Tensor q, Tensor k_pages, Tensor v_pages, float scale, int window, Tensor? sinks, Tensor plan, "
      "int queries, int entries) -> Tensor");
}

const c10::OperatorHandle& DecodeOp() {
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("ingot::decode_attention", "");
  return op;
}

}  // namespace

bool HasDecodeAttention(const at::Tensor& pages) {
  const int64_t head_dim = pages.size(3);
  return pages.is_cuda() && pages.scalar_type() == at::kBFloat16 && head_dim % 8 == 0 && head_dim <= 128 &&
         DecodeOp().hasKernelForDispatchKey(c10::DispatchKey::CUDA);
}

at::Tensor DecodeAttention(const at::Tensor& q, const at::Tensor& k_pages, const at::Tensor& v_pages,
                           const DecodeMemory& memory, double scale, const at::Tensor& sinks, int64_t window) {
  return DecodeOp().typed<DecodeAttentionSignature>().call(q, k_pages, v_pages, scale, window, Optional(sinks),
                                                           memory.plan, memory.room.queries, memory.room.entries);
}

}  // namespace ingot::kernels
