#include "kernels/torch/exact.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <atomic>

#include "kernels/torch/operands.h"

namespace ingot::kernels {
namespace {

std::atomic<Numerics> device_numerics = Numerics::kFast;

TORCH_LIBRARY_FRAGMENT(ingot, m) {
  m.def("exact_linear(Tensor x, Tensor weight, Tensor? bias, bool wide) -> Tensor");
  m.def("exact_linears(Tensor x, Tensor[] weights, Tensor?[] biases) -> Tensor[]");
}

}  // namespace

void SetDeviceNumerics(Numerics numerics) { device_numerics = numerics; }

Numerics DeviceNumerics() { return device_numerics; }

bool ExactOn(const at::Tensor& t) { return !t.is_cpu() && DeviceNumerics() == Numerics::kExact; }

at::Tensor ExactLinear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, bool wide) {
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("ingot::exact_linear", "");
  const at::NoGradGuard no_history;
  return op.typed<ExactLinearSignature>().call(x.detach(), weight.detach(), Optional(bias), wide);
}

std::vector<at::Tensor> ExactLinears(const at::Tensor& x, at::TensorList weights, at::TensorList biases) {
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("ingot::exact_linears", "");
  const at::NoGradGuard no_history;
  std::vector<at::Tensor> detached;
  c10::List<std::optional<at::Tensor>> given;
  for (size_t i = 0; i < weights.size(); ++i) {
    detached.push_back(weights[i].detach());
    given.push_back(biases.empty() ? std::nullopt : Optional(biases[i]));
  }
  return op.typed<ExactLinearsSignature>().call(x.detach(), detached, given);
}

}  // namespace ingot::kernels
