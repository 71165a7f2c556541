#include "trainer/pass/step_bound.h"

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
#include "trainer/pass/window_pairs.h"

namespace ingot::trainer {
namespace {

// The forward pass's share of attention's work: 4 of 14 per pair.
constexpr double kForwardOfAttention = 4.0 / 14;

struct Product {
  int64_t in, out, rows;
  bool trained;
  bool operator==(const Product&) const = default;
  double forward() const {
    return 2.0 * static_cast<double>(in) * static_cast<double>(out) * static_cast<double>(rows);
  }
  double flops() const { return forward() * (trained ? 3 : 2); }
};
using Products = std::vector<Product>;

// Returns the products for `rows` rows. Each expert gets its share of the rows.
Products LayerProducts(const model::LayerSpec& layer, int64_t rows) {
  const model::ExpertsConfig& experts = layer.feed_forward.experts;
  Products products;
  for (const model::TensorSpec& tensor : layer.tensors) {
    if (!tensor.is_product()) continue;
    const int64_t own = tensor.expert < 0 ? rows : std::max<int64_t>(1, rows * experts.per_token / experts.count);
    products.push_back({tensor.shape[1], tensor.shape[0], own, tensor.trained});
  }
  return products;
}

Product HeadProduct(const model::ModelConfig& config, int64_t rows) {
  const model::ModelSpec spec = model::SpecOf(config);
  return {config.hidden_size, config.vocab_size, rows,
          spec.head.has_value() ? spec.head->trained : spec.embedding.trained};
}

double Flops(const Products& products) {
  double sum = 0;
  for (const Product& product : products) sum += product.flops();
  return sum;
}

// Returns the distinct elements of `all`, with the count of each.
template <typename T>
std::vector<std::pair<T, double>> Kinds(const std::vector<T>& all) {
  std::vector<std::pair<T, double>> kinds;
  for (const T& one : all) {
    const auto known = std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) { return kind.first == one; });
    if (known == kinds.end()) {
      kinds.emplace_back(one, 1);
    } else {
      ++known->second;
    }
  }
  return kinds;
}

// Returns the mean time per call, after one warm-up call, over enough calls for the clock's resolution.
ProcessSeconds Time(const std::function<void()>& f) {
  constexpr double kMin = 0.02;
  f();
  const ProcessSeconds start = ClockNow();
  for (int calls = 1;; ++calls) {
    f();
    const ProcessSeconds now = ClockNow();
    if (now.wall - start.wall < kMin && calls < 1000) continue;
    return {(now.wall - start.wall) / calls, (now.cpu - start.cpu) / calls};
  }
}

ProcessSeconds Times(const ProcessSeconds& seconds, double factor) {
  return {seconds.wall * factor, seconds.cpu * factor};
}

ProcessSeconds Sum(const ProcessSeconds& a, const ProcessSeconds& b) { return {a.wall + b.wall, a.cpu + b.cpu}; }

// Returns random numbers similar to a model's, because some machines are faster on equal numbers. They come from a
// separate generator, so that the run's random numbers do not change. A small set is repeated, because drawing a whole
// vocabulary matrix takes longer than multiplying by it.
at::Tensor Operand(at::IntArrayRef sizes, double deviation, const at::TensorOptions& options) {
  constexpr int64_t kDrawn = 65'537;  // not a multiple of a row
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

// The products alternate, as in a layer. A single repeated product would find its weight in the caches.
ProcessSeconds TimeProducts(const Products& products, const at::TensorOptions& options) {
  std::vector<std::function<void()>> calls;
  for (const Product& p : products) {
    const at::Tensor x = Operand({p.rows, p.in}, 1, options).requires_grad_(true);
    const at::Tensor w = Operand({p.out, p.in}, 0.02, options).requires_grad_(p.trained);
    const at::Tensor grad = Operand({p.rows, p.out}, 0.1, options);
    calls.push_back([=]() {
      kernels::LinearOp(x, w, {}).backward(grad);
      x.mutable_grad().reset();
      if (w.requires_grad()) w.mutable_grad().reset();
    });
  }
  return Time([&] {
    for (const auto& call : calls) call();
  });
}

// The properties of a layer's attention that affect its time.
struct AttentionKind {
  int64_t heads, kv_heads, head_dim, window;
  bool keys_are_values, sinks;
  double soft_cap;
  bool operator==(const AttentionKind&) const = default;
};

ProcessSeconds TimeAttention(const AttentionKind& a, int64_t rows, const at::TensorOptions& options) {
  const at::Tensor q = Operand({rows, a.heads, a.head_dim}, 1, options).requires_grad_(true);
  const at::Tensor k = Operand({rows, a.kv_heads, a.head_dim}, 1, options).requires_grad_(true);
  const at::Tensor v = a.keys_are_values ? k : Operand(k.sizes(), 1, options).requires_grad_(true);
  const at::Tensor grad = Operand(q.sizes(), 0.1, options);
  kernels::TreeAttentionOptions kernel;
  kernel.scale = 1 / std::sqrt(static_cast<double>(a.head_dim));
  kernel.window = a.window;
  kernel.soft_cap = a.soft_cap;
  if (a.sinks) kernel.sinks = at::zeros({a.heads}, options).requires_grad_(true);
  return Time([&] {
    kernels::TreeAttention(q, k, v, kernel).backward(grad);
    for (const at::Tensor* t : {&q, &k, &v}) t->mutable_grad().reset();
  });
}

}  // namespace

StepWork WorkOf(const model::ModelConfig& config, const tree::PackedForest& forest, const PassResult& result,
                const PassOptions& options) {
  StepWork work;
  work.rows = static_cast<int64_t>(forest.size());
  work.head_rows = result.head_rows;
  work.visible_pairs = forest.visible_pairs;
  work.window_pairs = WindowPairs(forest.positions, config.sliding_window);
  work.repeated_rows = result.repeated_rows + (options.checkpoint_layers ? work.rows : 0);
  work.repeated_pairs = result.repeated_pairs + (options.checkpoint_layers ? work.visible_pairs : 0);
  work.repeated_window_pairs = result.repeated_window_pairs + (options.checkpoint_layers ? work.window_pairs : 0);
  return work;
}

StepWork SequenceWork(const model::ModelConfig& config, int64_t length) {
  StepWork work;
  work.rows = length;
  work.visible_pairs = SequencePairs(length, 0);
  if (config.sliding_window > 0) work.window_pairs = SequencePairs(length, config.sliding_window);
  return work;
}

StepWork UnmergedWork(const model::ModelConfig& config, std::span<const tree::CallPath> calls,
                      std::span<const int32_t> trained, int64_t head_rows) {
  StepWork work;
  work.head_rows = head_rows;
  for (const int32_t call : trained) work.Add(SequenceWork(config, calls[static_cast<size_t>(call)].size()));
  return work;
}

double LayerFlops(const model::ModelConfig& config, int64_t rows) {
  double flops = 0;
  for (const model::LayerSpec& layer : model::SpecOf(config).layers) flops += layer.row_flops();
  return flops * static_cast<double>(rows);
}

double HeadFlops(const model::ModelConfig& config, int64_t rows) { return HeadProduct(config, rows).flops(); }

PairFlops::PairFlops(const model::ModelConfig& config) {
  for (const model::LayerSpec& layer : model::SpecOf(config).layers) {
    (layer.attention.window > 0 ? windowed : full) += layer.attention.pair_flops();
  }
}

double AttentionFlopsPerSecond(const model::ModelConfig& config, const StepRates& rates) {
  const PairFlops flops(config);
  return (flops.full + flops.windowed) / (rates.per_pair.wall + rates.per_window_pair.wall);
}

StepRates StepRates::Best(const StepRates& other) const {
  StepRates best;
  for (ProcessSeconds StepRates::* rate :
       {&StepRates::per_flop, &StepRates::per_head_flop, &StepRates::per_pair, &StepRates::per_window_pair}) {
    best.*rate = {std::min((this->*rate).wall, (other.*rate).wall), std::min((this->*rate).cpu, (other.*rate).cpu)};
  }
  return best;
}

StepRates StepRates::Scaled(double factor) const {
  StepRates scaled;
  for (ProcessSeconds StepRates::* rate :
       {&StepRates::per_flop, &StepRates::per_head_flop, &StepRates::per_pair, &StepRates::per_window_pair}) {
    scaled.*rate = {factor * (this->*rate).wall, factor * (this->*rate).cpu};
  }
  return scaled;
}

StepRates StepRates::Measure(const model::ModelConfig& config, at::ScalarType dtype, at::Device device, int64_t rows,
                             int64_t head_rows, int64_t stream) {
  const at::AutoGradMode history(true);
  const auto options = at::dtype(dtype).device(device);
  rows = std::max<int64_t>(1, rows);
  head_rows = std::max<int64_t>(1, head_rows);
  stream = std::max<int64_t>(1, stream);
  StepRates rates;
  std::vector<Products> products;
  std::vector<AttentionKind> attention;
  for (const model::LayerSpec& layer : model::SpecOf(config).layers) {
    const model::AttentionSpec& a = layer.attention;
    products.push_back(LayerProducts(layer, rows));
    if (!layer.recurrence.exists())
      attention.push_back({a.heads, a.kv_heads, a.head_dim, a.window, a.keys_are_values(), a.sinks, a.soft_cap});
  }
  double flops = 0;
  for (const auto& [kind, count] : Kinds(products)) {
    flops += count * Flops(kind);
    rates.per_flop = Sum(rates.per_flop, Times(TimeProducts(kind, options), count));
  }
  rates.per_flop = Times(rates.per_flop, 1 / flops);
  const Products head = {HeadProduct(config, head_rows)};
  rates.per_head_flop = Times(TimeProducts(head, options), 1 / Flops(head));
  for (const auto& [kind, count] : Kinds(attention)) {
    ProcessSeconds& rate = kind.window > 0 ? rates.per_window_pair : rates.per_pair;
    const auto pairs = static_cast<double>(SequencePairs(stream, kind.window));
    rate = Sum(rate, Times(TimeAttention(kind, stream, options), count / pairs));
  }
  return rates;
}

ProcessSeconds BoundSeconds(const model::ModelConfig& config, const StepWork& work, const StepRates& rates) {
  double forward = 0;  // per row
  for (const model::LayerSpec& layer : model::SpecOf(config).layers) forward += layer.row_forward_flops();
  const double layers = LayerFlops(config, work.rows) + forward * static_cast<double>(work.repeated_rows);
  const double head = HeadFlops(config, work.head_rows) + HeadProduct(config, work.repeated_head_rows).forward();
  const auto pairs = [](int64_t once, int64_t repeated) {
    return static_cast<double>(once) + kForwardOfAttention * static_cast<double>(repeated);
  };
  const double full = pairs(work.visible_pairs, work.repeated_pairs),
               windowed = pairs(work.window_pairs, work.repeated_window_pairs);
  const auto sum = [&](double ProcessSeconds::* of) {
    return layers * rates.per_flop.*of + head * rates.per_head_flop.*of + full * rates.per_pair.*of +
           windowed * rates.per_window_pair.*of;
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
