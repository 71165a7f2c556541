// Writes the keys and values of a batch's rows into a cache's pages on a device, without autograd. Registered with the
// dispatcher under `ingot`; only libingot_cuda.so has a kernel (kernels/cuda/pages.cuh):
//
//   rows_to_pages(q, k, v, q_weight, k_weight, eps, cos, sin, positions, slots, y, k_pages, v_pages)
//
// The functions throw c10::Error if tensors do not match, or if the device has no kernel.
#pragma once

#include <ATen/ATen.h>

#include <optional>

namespace ingot::kernels {

// Where a batch's rows are written: row i to slots[i] = page * page_size + offset.
struct PageRows {
  at::Tensor k, v;   // dense [pages, page_size, kv_heads, head_dim]; one tensor = values are keys, and not written
  at::Tensor slots;  // int64 [rows], different from each other on the device of the pages; -1 = the row is not written
};

// Returns whether there is a kernel for pages of this type on this device.
bool WritesPages(const at::Tensor& pages);

// Writes k and, unless values are keys, v [rows, kv_heads, head_dim], of the pages' type. One launch.
void WriteRows(const at::Tensor& k, const at::Tensor& v, const PageRows& to);

// The norm and RoPE of heads: NormRotateOp's arguments. A weight is undefined without a norm.
struct HeadTurn {
  at::Tensor q_weight, k_weight;
  double eps;
  at::Tensor cos, sin, positions;
};

// Returns NormRotateOp(q), and writes NormRotateOp(k) and v, with the same bits as NormRotateOp and WriteRows. One launch.
at::Tensor TurnAndWriteRows(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const HeadTurn& turn,
                            const PageRows& to);

using RowsToPagesSignature = void(const std::optional<at::Tensor>& q, const at::Tensor& k,
                                  const std::optional<at::Tensor>& v, const std::optional<at::Tensor>& q_weight,
                                  const std::optional<at::Tensor>& k_weight, double eps,
                                  const std::optional<at::Tensor>& cos, const std::optional<at::Tensor>& sin,
                                  const std::optional<at::Tensor>& positions, const at::Tensor& slots,
                                  const std::optional<at::Tensor>& y, const at::Tensor& k_pages,
                                  const std::optional<at::Tensor>& v_pages);

}  // namespace ingot::kernels
