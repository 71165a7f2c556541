// Communicator joins the ranks that hold one model together. A block calls it at every border where tensor, expert or
// context parallelism cuts a layer; with one rank each function returns its input.
//
//   tensor    x ──Enter──▶ products cut by rows (q, k, v, gate, up) ──▶ products cut by columns (o, down) ──Sum──▶ x
//             squares of a norm over all heads ──Sum──Enter──▶ the scale of this rank's heads
//   expert    rows of an expert ──Exchange──▶ the rank that holds it ──Exchange──▶ back (dispatch.h)
//   context   keys and values of this rank's rows ──Gather──▶ those that its queries see; a term over all rows ──Sum──▶
//
// The functions take part in autograd. All ranks of an axis call the same functions in the same order.
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

  // Every rank's equal copy, before work that is divided. Backward adds up the ranks' gradients.
  virtual at::Tensor Enter(Axis axis, const at::Tensor& x) = 0;
  // The sum over the ranks' partial results, on every rank, after work that was divided. Backward passes the gradient.
  virtual at::Tensor Sum(Axis axis, const at::Tensor& x) = 0;
  // The ranks' tensors, joined along `dim`. Each rank uses the whole in its own work: backward adds up the ranks'
  // gradients and takes this rank's slice.
  virtual at::Tensor Gather(Axis axis, const at::Tensor& x, int64_t dim) = 0;
  // Exchanges rows for other ranks with their rows for this one. counts[r]: rows of x for rank r, in order; `received`
  // gets the rows from each. Backward sends gradients back.
  virtual at::Tensor Exchange(Axis axis, const at::Tensor& x, const at::Tensor& counts, at::Tensor* received) = 0;

  // One rank. Thread safe; never destroyed.
  static Communicator& Alone();
};

}  // namespace ingot::model
