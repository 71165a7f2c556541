// Attention of a decode step on a device, whose plan is in memory of a fixed size there (kernels/cuda/decode_plan.h).
// Registered with the dispatcher under `ingot`; only libingot_cuda.so has a kernel:
//
//   decode_attention(q, k_pages, v_pages, scale, window, sinks, plan, queries, entries) -> out
//
// Unlike PagedTreeAttention, it takes nothing from the host but numbers that are the same for every plan of the room,
// and has two launches and no copies. The bits are those of PagedTreeAttention. Throws c10::Error.
#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "kernels/cuda/decode_plan.h"

namespace ingot::kernels {

// A plan for layers of one group size and window, on the device.
struct DecodeMemory {
  at::Tensor plan;  // uint8 [room.bytes(page_size)], 16-byte aligned
  cuda::DecodeRoom room;
};

// Returns whether there is a kernel for pages of this type and heads of this width, on this device.
bool HasDecodeAttention(const at::Tensor& pages);

// q is dense [rows, heads, head_dim]; k_pages and v_pages are dense [pages, page_size, kv_heads, head_dim]. All are bf16.
// The result has q's sizes. Its rows that no query of the plan names are not written.
at::Tensor DecodeAttention(const at::Tensor& q, const at::Tensor& k_pages, const at::Tensor& v_pages,
                           const DecodeMemory& memory, double scale, const at::Tensor& sinks, int64_t window);

using DecodeAttentionSignature = at::Tensor(const at::Tensor& q, const at::Tensor& k_pages, const at::Tensor& v_pages,
                                            double scale, int64_t window, const std::optional<at::Tensor>& sinks,
                                            const at::Tensor& plan, int64_t queries, int64_t entries);

}  // namespace ingot::kernels
