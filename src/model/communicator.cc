#include "model/communicator.h"

namespace ingot::model {
namespace {

class OneRank final : public Communicator {
 public:
  int size(Axis) const override { return 1; }
  int rank(Axis) const override { return 0; }
  at::Tensor Enter(Axis, const at::Tensor& x) override { return x; }
  at::Tensor Sum(Axis, const at::Tensor& x) override { return x; }
  at::Tensor Gather(Axis, const at::Tensor& x, int64_t) override { return x; }
  at::Tensor Exchange(Axis, const at::Tensor& x, const at::Tensor& counts, at::Tensor* received) override {
    *received = counts;
    return x;
  }
};

}  // namespace

Communicator& Communicator::Alone() {
  static OneRank one;
  return one;
}

}  // namespace ingot::model
