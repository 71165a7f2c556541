#include "kernels/torch/adamw.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "kernels/torch/operands.h"

namespace ingot::kernels {
namespace {

TORCH_LIBRARY_FRAGMENT(ingot, m) {
  m.def(
      "adamw(Tensor(a!) master, Tensor(b!) exp_avg, Tensor(c!) exp_avg_sq, Tensor? gradient, Tensor(d!)? parameter, "
      "Tensor(e!)? changes, float[] numbers, bool weights, bool moments) -> ()");
}

}  // namespace

void AdamWOp(const at::Tensor& master, const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq,
             const at::Tensor& gradient, const AdamWRounding& rounding, const AdamWUpdate& update) {
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("ingot::adamw", "");
  const at::NoGradGuard no_history;
  op.typed<AdamWSignature>().call(master, exp_avg, exp_avg_sq, Optional(gradient), Optional(rounding.parameter),
                                  Optional(rounding.changes), update.Numbers(), update.weights, update.moments);
}

}  // namespace ingot::kernels
