#include "trainer/step_bound.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <functional>
#include <utility>
#include <vector>

#include "kernels/torch/linear.h"
#include "kernels/torch/tree_attention.h"
#include "model/layer_spec.h"

namespace ingot::trainer {
namespace {

// The forward pass's share of the work of forward and backward: 2 of 6 products; of attention 4 of 14 per pair.
constexpr double kForwardOfLinear = 1.0 / 3, kForwardOfAttention = 4.0 / 14;

struct Product {
  int64_t in, out;
};

std::vector<Product> LayerProducts(const model::LayerSpec& layer) {
  std::vector<Product> products;
  for (const model::TensorSpec& tensor : layer.tensors) {
    if (tensor.is_product()) products.push_back({tensor.shape[1], tensor.shape[0]});
  }
  return products;
}

double Flops(const std::vector<Product>& products, int64_t rows) {
  double weights = 0;
  for (const Product& p : products) weights += static_cast<double>(p.in) * static_cast<double>(p.out);
  return 6 * weights * static_cast<double>(rows);
}

// Mean time of a call, over enough calls for the clock's resolution, after one call that does not count.
ProcessSeconds Time(const std::function<void()>& f) {
  constexpr double kLeast = 0.02;
  f();
  const ProcessSeconds start = ClockNow();
  for (int calls = 1;; ++calls) {
    f();
    const ProcessSeconds now = ClockNow();
    if (now.wall - start.wall < kLeast && calls < 1000) continue;
    return {(now.wall - start.wall) / calls, (now.cpu - start.cpu) / calls};
  }
}

ProcessSeconds Scaled(const ProcessSeconds& seconds, double factor) {
  return {seconds.wall * factor, seconds.cpu * factor};
}

// Random numbers like a model's, for some machines are faster on equal ones. They come from a generator of their own,
// so that the run's random numbers stay the same. A few are repeated: drawing a vocabulary's takes longer than its
// product.
at::Tensor Operand(at::IntArrayRef sizes, double deviation, const at::TensorOptions& options) {
  constexpr int64_t kDrawn = 65'537;  // no multiple of a row
  at::Generator generator = at::detail::createCPUGenerator(/*seed=*/1);
  const at::Tensor drawn = at::empty({kDrawn}, at::kFloat).normal_(0, deviation, generator).to(options);
  at::Tensor all = at::empty(sizes, options);
  at::Tensor flat = all.view(-1);
  for (int64_t at = 0; at < flat.numel(); at += kDrawn) {
    const int64_t n = std::min(kDrawn, flat.numel() - at);
    flat.narrow(0, at, n).copy_(drawn.narrow(0, 0, n));
  }
  return all;
}

// The products take turns, as in a layer: one product alone would find its weight in the caches.
ProcessSeconds TimeProducts(const std::vector<Product>& products, int64_t rows, const at::TensorOptions& options) {
  std::vector<std::function<void()>> calls;
  for (const Product& p : products) {
    const at::Tensor x = Operand({rows, p.in}, 1, options).requires_grad_(true);
    const at::Tensor w = Operand({p.out, p.in}, 0.02, options).requires_grad_(true);
    const at::Tensor grad = Operand({rows, p.out}, 0.1, options);
    calls.push_back([=]() {
      kernels::LinearOp(x, w, {}).backward(grad);
      x.mutable_grad().reset();
      w.mutable_grad().reset();
    });
  }
  return Time([&] {
    for (const auto& call : calls) call();
  });
}

ProcessSeconds TimeAttention(const model::AttentionSpec& a, int64_t rows, const at::TensorOptions& options) {
  const at::Tensor q = Operand({rows, a.heads, a.head_dim}, 1, options).requires_grad_(true);
  const at::Tensor k = Operand({rows, a.kv_heads, a.head_dim}, 1, options).requires_grad_(true);
  const at::Tensor v = Operand(k.sizes(), 1, options).requires_grad_(true), grad = Operand(q.sizes(), 0.1, options);
  return Time([&] {
    kernels::TreeAttention(q, k, v, at::Tensor(), a.scale).backward(grad);
    for (const at::Tensor* t : {&q, &k, &v}) t->mutable_grad().reset();
  });
}

}  // namespace

StepWork WorkOf(const tree::PackedForest& forest, const PassResult& result, const PassOptions& options) {
  StepWork work;
  work.rows = static_cast<int64_t>(forest.size());
  work.head_rows = result.head_rows;
  work.visible_pairs = forest.visible_pairs;
  work.repeated_rows = result.repeated_rows + (options.checkpoint_layers ? work.rows : 0);
  work.repeated_pairs = result.repeated_pairs + (options.checkpoint_layers ? work.visible_pairs : 0);
  return work;
}

StepWork UnmergedWork(std::span<const tree::CallPath> calls, std::span<const int32_t> trained, int64_t head_rows) {
  StepWork work;
  work.head_rows = head_rows;
  for (const int32_t call : trained) {
    const int64_t length = calls[static_cast<size_t>(call)].size();
    work.rows += length;
    work.visible_pairs += length * (length + 1) / 2;
  }
  return work;
}

double LayerFlops(const model::ModelConfig& config, int64_t rows) {
  double weights = 0;
  for (const model::LayerSpec& layer : model::SpecOf(config).layers) {
    weights += static_cast<double>(layer.row_products());
  }
  return 6 * weights * static_cast<double>(rows);
}

double HeadFlops(const model::ModelConfig& config, int64_t rows) {
  return Flops({{config.hidden_size, config.vocab_size}}, rows);
}

StepRates StepRates::Best(const StepRates& other) const {
  StepRates best;
  for (ProcessSeconds StepRates::* rate : {&StepRates::per_flop, &StepRates::per_head_flop, &StepRates::per_pair}) {
    best.*rate = {std::min((this->*rate).wall, (other.*rate).wall), std::min((this->*rate).cpu, (other.*rate).cpu)};
  }
  return best;
}

double PairFlops(const model::ModelConfig& config) {
  return 14.0 * static_cast<double>(model::SpecOf(config).layers.back().attention.queries());
}

StepRates StepRates::Measure(const model::ModelConfig& config, at::ScalarType dtype, at::Device device, int64_t rows,
                             int64_t head_rows, int64_t stream) {
  const at::AutoGradMode history(true);
  const auto options = at::dtype(dtype).device(device);
  rows = std::max<int64_t>(1, rows);
  head_rows = std::max<int64_t>(1, head_rows);
  stream = std::max<int64_t>(1, stream);
  StepRates rates;
  const std::vector<Product> layer = LayerProducts(model::SpecOf(config).layers.back()),
                             head = {{config.hidden_size, config.vocab_size}};
  rates.per_flop = Scaled(TimeProducts(layer, rows, options), 1 / Flops(layer, rows));
  rates.per_head_flop = Scaled(TimeProducts(head, head_rows, options), 1 / Flops(head, head_rows));
  rates.per_pair = Scaled(TimeAttention(model::SpecOf(config).layers.back().attention, stream, options),
                          2.0 / (static_cast<double>(stream) * static_cast<double>(stream + 1)));
  return rates;
}

ProcessSeconds BoundSeconds(const model::ModelConfig& config, const StepWork& work, const StepRates& rates) {
  const double layers = LayerFlops(config, work.rows) + kForwardOfLinear * LayerFlops(config, work.repeated_rows);
  const double head = HeadFlops(config, work.head_rows) + kForwardOfLinear * HeadFlops(config, work.repeated_head_rows);
  const double pairs =
      static_cast<double>(config.num_hidden_layers) *
      (static_cast<double>(work.visible_pairs) + kForwardOfAttention * static_cast<double>(work.repeated_pairs));
  const auto sum = [&](double ProcessSeconds::* of) {
    return layers * rates.per_flop.*of + head * rates.per_head_flop.*of + pairs * rates.per_pair.*of;
  };
  return {sum(&ProcessSeconds::wall), sum(&ProcessSeconds::cpu)};
}

ProcessSeconds ClockNow() {
  timespec cpu{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  return {std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(),
          static_cast<double>(cpu.tv_sec) + 1e-9 * static_cast<double>(cpu.tv_nsec)};
}

}  // namespace ingot::trainer
