// Adds rows of a matrix to the rows that an index names, in a fixed order. torch's own operators add rows with the same
// index by atomics on a GPU, so their sums differ from run to run. Throws c10::Error.
#pragma once

#include <ATen/ATen.h>

namespace ingot::kernels {

// sums[ids[i]] += rows[i] for each i, in order. sums is [n] or [n, width] and dense; ids is int64 [count], and rows
// [count] or [count, width], of the same type and device. bf16 is summed in fp32 and rounded once, because a bf16 sum of
// thousands of terms stops growing after a few hundred. The results are the same bits on every device. Reads and writes
// only the rows of the ids.
void AddRows(const at::Tensor& sums, const at::Tensor& ids, const at::Tensor& rows);

// x.index_select(0, ids), for x [n, width]. On a device, AddRows sums its gradient.
at::Tensor GatherRows(const at::Tensor& x, const at::Tensor& ids);

using AddRowsSignature = void(const at::Tensor& sums, const at::Tensor& ids, const at::Tensor& rows);

// Checks the operator's arguments, for the kernels of all devices. Throws c10::Error.
inline void CheckAddRows(const at::Tensor& sums, const at::Tensor& ids, const at::Tensor& rows) {
  TORCH_CHECK((sums.dim() == 1 || sums.dim() == 2) && sums.is_contiguous() && ids.dim() == 1 &&
                  ids.scalar_type() == at::kLong && rows.dim() == sums.dim() && rows.size(0) == ids.size(0) &&
                  (sums.dim() == 1 || rows.size(1) == sums.size(1)),
              "add_rows: rows ", rows.sizes(), " and ids ", ids.scalar_type(), " ", ids.sizes(), " do not match sums ",
              sums.sizes(), ", or the sums are not dense");
  TORCH_CHECK(
      rows.scalar_type() == sums.scalar_type() && rows.device() == sums.device() && ids.device() == sums.device(),
      "add_rows: rows ", rows.scalar_type(), " on ", rows.device(), " and ids on ", ids.device(), " meet sums ",
      sums.scalar_type(), " on ", sums.device());
}

}  // namespace ingot::kernels
