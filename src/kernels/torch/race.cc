#include "kernels/torch/race.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <limits>

#include "kernels/draws/race.h"

namespace ingot::kernels {
namespace {

std::tuple<at::Tensor, at::Tensor> RaceOnCpu(const at::Tensor& log_weights, const at::Tensor& seeds) {
  CheckRace(log_weights, seeds);
  const at::Tensor rows = log_weights.contiguous(), keys = seeds.contiguous();
  const at::Tensor winners = at::empty_like(keys), log_probs = at::empty({rows.size(0)}, rows.options());
  const int64_t count = rows.size(1);
  for (int64_t i = 0; i < rows.size(0); ++i) {
    const float* const row = rows.const_data_ptr<float>() + i * count;
    const int64_t winner = Race({row, count, nullptr}, static_cast<uint64_t>(keys.const_data_ptr<int64_t>()[i]));
    winners.mutable_data_ptr<int64_t>()[i] = winner;
    log_probs.mutable_data_ptr<float>()[i] = winner < 0 ? -std::numeric_limits<float>::infinity() : row[winner];
  }
  return {winners, log_probs};
}

TORCH_LIBRARY_FRAGMENT(ingot, m) {
  m.def("race(Tensor log_weights, Tensor seeds) -> (Tensor, Tensor)");
  m.impl("race", c10::DispatchKey::CPU, RaceOnCpu);
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> RaceRows(const at::Tensor& log_weights, const at::Tensor& seeds) {
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("ingot::race", "");
  return op.typed<RaceSignature>().call(log_weights, seeds);
}

}  // namespace ingot::kernels
