// Tree attention and linear layers on the CPU, against the clock.
//
//   cmake --preset release -DINGOT_BUILD_BENCHMARKS=ON && ninja -C build/release tree_attention_bench
//   build/release/benchmarks/tree_attention_bench [--benchmark_filter=Forward]
//
// One thread, fp32. GFLOP/s counts visible pairs only: 4 * head_dim operations per pair and head forward, 10 backward.
// Decode: sequences of one query each over paged keys; GB/s is keys and values read once. Not measured: threads, fp64.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/layers.h"

namespace ingot::kernels {
namespace {

std::vector<float> Random(int64_t size) {
  std::mt19937 rng(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(size);
  for (float& v : values) v = uniform(rng);
  return values;
}

// `branches` copies of equal length below a common prefix of half the stream; 0: plain causal.
std::vector<int32_t> Tree(int64_t rows, int64_t branches) {
  std::vector<int32_t> end(rows, static_cast<int32_t>(rows));
  for (int64_t b = 0; b < branches; ++b) {
    const int64_t first = rows / 2 + b * (rows / 2) / branches, last = rows / 2 + (b + 1) * (rows / 2) / branches;
    for (int64_t j = first; j < last; ++j) end[j] = static_cast<int32_t>(last);
  }
  return end;
}

double Pairs(const std::vector<int32_t>& end) {
  double pairs = 0;
  for (size_t j = 0; j < end.size(); ++j) pairs += end[j] - static_cast<double>(j);
  return pairs;
}

void Rate(benchmark::State& state, const char* name, double per_iteration) {
  state.counters[name] =
      benchmark::Counter(per_iteration * 1e-9 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

struct Stream {
  AttentionShape shape;
  int64_t rows;
  std::vector<int32_t> end;
  std::vector<float> q, k, v, out, lse;
  explicit Stream(const benchmark::State& state)
      : shape{state.range(1), state.range(2), state.range(3), 1 / std::sqrt(static_cast<double>(state.range(3)))},
        rows(state.range(0)),
        end(Tree(rows, state.range(4))),
        q(Random(rows * shape.heads * shape.head_dim)),
        k(Random(rows * shape.kv_heads * shape.head_dim)),
        v(k),
        out(q.size()),
        lse(rows * shape.heads) {}
  void Forward() {
    AttentionSequence s;
    s.q_count = s.key_count = rows;
    s.visible_end = end.data();
    AttentionForwardArgs<float> args;
    args.q = q.data();
    args.k = k.data();
    args.v = v.data();
    args.out = out.data();
    args.lse = lse.data();
    AttentionForward<float>(shape, {&s, 1}, args, Serial);
  }
  double PairFlops() const { return Pairs(end) * static_cast<double>(shape.heads * shape.head_dim); }
};

void Forward(benchmark::State& state) {
  Stream stream(state);
  for (auto _ : state) stream.Forward();
  Rate(state, "GFLOP/s", 4 * stream.PairFlops());
}

void Backward(benchmark::State& state) {
  Stream stream(state);
  stream.Forward();
  std::vector<float> grad(stream.q), grad_q(grad), grad_k(stream.k), grad_v(stream.k);
  AttentionBackwardArgs<float> args;
  args.rows = args.keys = stream.rows;
  args.visible_end = stream.end.data();
  args.q = stream.q.data();
  args.k = stream.k.data();
  args.v = stream.v.data();
  args.out = stream.out.data();
  args.lse = stream.lse.data();
  args.grad_out = grad.data();
  args.grad_q = grad_q.data();
  args.grad_k = grad_k.data();
  args.grad_v = grad_v.data();
  for (auto _ : state) AttentionBackward<float>(stream.shape, args, Serial);
  Rate(state, "GFLOP/s", 10 * stream.PairFlops());
}

// rows, heads, kv_heads, head_dim, branches
void Sizes(benchmark::internal::Benchmark* b) {
  b->Args({600, 4, 2, 32, 0})->Args({600, 4, 2, 64, 0})->Args({2048, 8, 2, 64, 0})->Args({2048, 8, 2, 128, 0});
  b->Args({8192, 2, 1, 128, 0})->Args({2048, 8, 2, 64, 8});
  b->Unit(benchmark::kMillisecond)->MinTime(0.3);
}
BENCHMARK(Forward)->Apply(Sizes);
BENCHMARK(Backward)->Apply(Sizes);

// sequences, context, heads, kv_heads, head_dim
void Decode(benchmark::State& state) {
  constexpr int64_t kPage = 16;
  const int64_t count = state.range(0), context = state.range(1);
  const AttentionShape shape{state.range(2), state.range(3), state.range(4), 0.1};
  const int64_t pages = (context + kPage - 1) / kPage;
  const std::vector<float> q = Random(count * shape.heads * shape.head_dim);
  const std::vector<float> k = Random(count * pages * kPage * shape.kv_heads * shape.head_dim), v = k;
  std::vector<int32_t> tables(count * pages);
  for (size_t i = 0; i < tables.size(); ++i) tables[i] = static_cast<int32_t>(i);
  std::shuffle(tables.begin(), tables.end(), std::mt19937(2));
  std::vector<AttentionSequence> sequences(count);
  for (int64_t i = 0; i < count; ++i) {
    sequences[i].q_begin = i;
    sequences[i].q_count = 1;
    sequences[i].q_offset = context - 1;
    sequences[i].key_count = context;
    sequences[i].block_table = tables.data() + i * pages;
  }
  std::vector<float> out(q.size());
  AttentionForwardArgs<float> args;
  args.q = q.data();
  args.k = k.data();
  args.v = v.data();
  args.out = out.data();
  args.page_size = kPage;
  for (auto _ : state) AttentionForward<float>(shape, sequences, args, Serial);
  const double keys = static_cast<double>(count * context);
  Rate(state, "GFLOP/s", 4 * keys * static_cast<double>(shape.heads * shape.head_dim));
  Rate(state, "GB/s", 2 * sizeof(float) * keys * static_cast<double>(shape.kv_heads * shape.head_dim));
}
BENCHMARK(Decode)
    ->Args({1, 600, 4, 2, 32})
    ->Args({32, 600, 4, 2, 32})
    ->Args({32, 600, 4, 2, 64})
    ->Args({1, 8192, 16, 8, 128})
    ->Args({16, 2048, 16, 8, 128})
    ->Unit(benchmark::kMicrosecond)
    ->MinTime(0.3);

// rows, in, out
void LinearForward(benchmark::State& state) {
  const int64_t rows = state.range(0), in = state.range(1), out = state.range(2);
  const std::vector<float> x = Random(rows * in), weight = Random(in * out);
  std::vector<float> y(rows * out);
  const LinearArgs<float> args{x.data(), weight.data(), nullptr, y.data(), rows, in, out, 0};
  for (auto _ : state) Linear<float>(args, Serial);
  Rate(state, "GFLOP/s", 2.0 * static_cast<double>(rows * in * out));
}
BENCHMARK(LinearForward)
    ->ArgsProduct({{1, 4, 16, 64, 512}, {128}, {384}})
    ->ArgsProduct({{1, 4, 16, 64, 512}, {2048}, {4096}})
    ->Unit(benchmark::kMicrosecond)
    ->MinTime(0.2);

}  // namespace
}  // namespace ingot::kernels

BENCHMARK_MAIN();
