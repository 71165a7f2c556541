#include "kernels/torch/add_rows.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "kernels/torch/operands.h"
#include "kernels/torch/typed.h"

namespace ingot::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// index_add_ on the CPU adds in order.
void AddRowsOnCpu(const at::Tensor& sums, const at::Tensor& ids, const at::Tensor& rows) {
  CheckAddRows(sums, ids, rows);
  const at::Tensor to = sums;  // a handle that may be changed
  if (AccumulatorType(sums) == sums.scalar_type()) {
    to.index_add_(0, ids, rows);
    return;
  }
  const auto [occurring, place, counts] = at::_unique2(ids, /*sorted=*/true, /*return_inverse=*/true);
  at::Tensor wide = sums.index_select(0, occurring).to(AccumulatorType(sums));
  wide.index_add_(0, place, rows.to(wide.scalar_type()));
  to.index_copy_(0, occurring, wide.to(sums.scalar_type()));
}

TORCH_LIBRARY_FRAGMENT(ingot, m) {
  m.def("add_rows(Tensor(a!) sums, Tensor ids, Tensor rows) -> ()");
  m.impl("add_rows", c10::DispatchKey::CPU, AddRowsOnCpu);
}

class GatherRowsFunction : public Function<GatherRowsFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& ids) {
    context->save_for_backward({ids});
    context->saved_data["rows"] = x.size(0);
    return x.index_select(0, ids);
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const at::Tensor grad = grads[0].contiguous();
    at::Tensor sums = at::zeros({context->saved_data["rows"].toInt(), grad.size(1)}, grad.options());
    AddRows(sums, context->get_saved_variables()[0], grad);
    return {sums, at::Tensor()};
  }
};

}  // namespace

void AddRows(const at::Tensor& sums, const at::Tensor& ids, const at::Tensor& rows) {
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("ingot::add_rows", "");
  const at::NoGradGuard no_history;
  op.typed<AddRowsSignature>().call(sums, ids, rows);
}

at::Tensor GatherRows(const at::Tensor& x, const at::Tensor& ids) {
  if (x.is_cpu() || !NeedsGrad(x)) return x.index_select(0, ids);
  return GatherRowsFunction::apply(x, ids);
}

}  // namespace ingot::kernels
