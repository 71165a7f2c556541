// Dispatch brings rows to the ranks that hold their experts, and the results back. Each rank of the expert axis holds
// an equal run of a layer's experts.
//
//   rows by expert ──Exchange──▶ this rank's rows, by its experts ──experts──▶ results ──Exchange──▶ in the first order
//
// One rank: nothing moves. Used by one layer's forward pass; takes part in autograd.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "model/communicator.h"

namespace ingot::model {

class Dispatch {
 public:
  // counts: int64 [experts] on the CPU, this rank's rows for each. REQUIRES: the axis' size divides the experts.
  Dispatch(Communicator& communicator, const at::Tensor& counts);

  int64_t first() const { return first_; }                // this rank's first expert
  const at::Tensor& counts() const { return received_; }  // int64 [this rank's experts], rows for each

  // [rows, width], in the order of their experts -> the rows of all ranks for this rank's experts, in the same order.
  at::Tensor Send(const at::Tensor& rows) const;
  // The results of Send's rows -> the results of this rank's own rows, in their original order.
  at::Tensor Return(const at::Tensor& results) const;

 private:
  Communicator& communicator_;
  int64_t first_ = 0;
  at::Tensor received_;
  // int64 [ranks]: rows for each rank, and from each.
  at::Tensor sent_rows_, received_rows_;
  // int64: the places of received rows in the order of this rank's experts, and back; undefined = one rank.
  at::Tensor order_, back_;
};

}  // namespace ingot::model
