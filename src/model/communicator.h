// Connects the ranks that hold one model together. A block calls it wherever tensor, expert, or context parallelism
// splits a layer. With one rank, each function returns its input.
//
//   tensor    x ──Enter──▶ row-split products (q, k, v, gate, up) ──▶ column-split products (o, down) ──Sum──▶ x
//             squares of a norm over all heads ──Sum──Enter──▶ the scale of this rank's heads
//   expert    rows of an expert ──Exchange──▶ the rank that holds it ──Exchange──▶ back (dispatch.h)
//   context   keys and values of this rank's rows ──Gather──▶ those that its queries see; a term over all rows ──Sum──▶
//
// The functions support autograd. All ranks on an axis must call the same functions in the same order.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ingot::model {

enum class Axis : uint8_t { kTensor, kExpert, kContext };

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int size(Axis axis) const = 0;
  virtual int rank(Axis axis) const = 0;

  // Marks the start of divided work. Every rank has an equal copy of x. The backward pass sums the gradients.
  virtual at::Tensor Enter(Axis axis, const at::Tensor& x) = 0;
  // Returns the sum of the ranks' partial results on every rank, after divided work. The backward pass is the identity.
  virtual at::Tensor Sum(Axis axis, const at::Tensor& x) = 0;
  // Returns the ranks' tensors, concatenated along `dim`. Each rank uses the result in its own work, so the backward
  // pass sums the ranks' gradients and returns this rank's slice.
  virtual at::Tensor Gather(Axis axis, const at::Tensor& x, int64_t dim) = 0;
  // Sends rows to the other ranks and receives their rows for this one. counts[r] is the number of rows of x for rank
  // r, in order. `received` is set to the number of rows from each rank. The backward pass returns the gradients.
  virtual at::Tensor Exchange(Axis axis, const at::Tensor& x, const at::Tensor& counts, at::Tensor* received) = 0;

  // Returns the single-rank communicator. Thread safe. Never destroyed.
  static Communicator& Alone();
};

}  // namespace ingot::model
