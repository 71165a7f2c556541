#include "kernels/torch/exact.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <atomic>

#include "kernels/torch/operands.h"

namespace ingot::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

std::atomic<Numerics> device_numerics = Numerics::kFast;

TORCH_LIBRARY_FRAGMENT(ingot, m) {
  m.def("exact_linear(Tensor x, Tensor weight, Tensor? bias, bool wide) -> Tensor");
  m.def("row_sums(Tensor x) -> Tensor");
}

at::Tensor CallRowSums(const at::Tensor& x) {
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("ingot::row_sums", "");
  const at::NoGradGuard no_history;
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = 1;
  return op.typed<RowSumsSignature>().call(x.detach().reshape({-1, x.size(-1)}).contiguous()).view(sizes);
}

class SumOfRowsFunction : public Function<SumOfRowsFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    context->saved_data["sizes"] = x.sizes().vec();
    return CallRowSums(x);
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    return {grads[0].expand(context->saved_data["sizes"].toIntVector())};
  }
};

}  // namespace

void SetDeviceNumerics(Numerics numerics) { device_numerics = numerics; }

Numerics DeviceNumerics() { return device_numerics; }

bool ExactOn(const at::Tensor& t) { return !t.is_cpu() && DeviceNumerics() == Numerics::kExact; }

at::Tensor ExactLinear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, bool wide) {
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("ingot::exact_linear", "");
  const at::NoGradGuard no_history;
  return op.typed<ExactLinearSignature>().call(x.detach(), weight.detach(), Optional(bias), wide);
}

at::Tensor SumOfRows(const at::Tensor& x) {
  TORCH_CHECK(x.dim() > 0 && x.size(-1) > 0, "row sums: rows of ", x.sizes(), " are empty");
  return NeedsGrad(x) ? SumOfRowsFunction::apply(x) : CallRowSums(x);
}

at::Tensor LastSum(const at::Tensor& x, bool keep) {
  if (!ExactOn(x)) return x.sum(-1, keep);
  return keep ? SumOfRows(x) : SumOfRows(x).squeeze(-1);
}

}  // namespace ingot::kernels
