// Sends rows to the ranks that hold their experts, and returns the results. Each rank on the expert axis holds an
// equal, contiguous range of a layer's experts.
//
//   rows by expert ──Exchange──▶ this rank's rows, by its experts ──experts──▶ results ──Exchange──▶ in original order
//
// With one rank, nothing is exchanged. An object serves one forward pass of one layer. Supports autograd.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "model/communicator.h"

namespace ingot::model {

class Dispatch {
 public:
  // `counts` is int64 [experts] on the CPU: this rank's rows for each expert. REQUIRES: the axis size divides the
  // number of experts.
  Dispatch(Communicator& communicator, const at::Tensor& counts);

  int64_t first() const { return first_; }                // this rank's first expert
  const at::Tensor& counts() const { return received_; }  // int64 [this rank's experts], rows for each

  // [rows, width], in expert order -> all ranks' rows for this rank's experts, in expert order.
  at::Tensor Send(const at::Tensor& rows) const;
  // Results for Send's rows -> results for this rank's own rows, in their original order.
  at::Tensor Return(const at::Tensor& results) const;

 private:
  Communicator& communicator_;
  int64_t first_ = 0;
  at::Tensor received_;
  // int64 [ranks]: rows sent to each rank, and received from each.
  at::Tensor sent_rows_, received_rows_;
  // int64: the permutation that sorts received rows by this rank's experts, and its inverse. Undefined = one rank.
  at::Tensor order_, back_;
};

}  // namespace ingot::model
