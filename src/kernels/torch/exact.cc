#include "kernels/torch/exact.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <atomic>

#include "kernels/torch/operands.h"

namespace ingot::kernels {
namespace {

std::atomic<Numerics> device_numerics = Numerics::kFast;

TORCH_LIBRARY_FRAGMENT(ingot, m) { m.def("exact_linear(Tensor x, Tensor weight, Tensor? bias, bool wide) -> Tensor"); }

}  // namespace

void SetDeviceNumerics(Numerics numerics) { device_numerics = numerics; }

Numerics DeviceNumerics() { return device_numerics; }

bool ExactOn(const at::Tensor& t) { return !t.is_cpu() && DeviceNumerics() == Numerics::kExact; }

at::Tensor ExactLinear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, bool wide) {
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("ingot::exact_linear", "");
  const at::NoGradGuard no_history;
  return op.typed<ExactLinearSignature>().call(x.detach(), weight.detach(), Optional(bias), wide);
}

}  // namespace ingot::kernels
