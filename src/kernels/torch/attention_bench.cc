#include "kernels/torch/attention_bench.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <limits>
#include <numeric>
#include <random>

#include "kernels/attention/bench_trees.h"
#include "kernels/attention/tile_index.h"
#include "kernels/torch/linear.h"
#include "kernels/torch/tree_attention.h"
#include "kernels/torch/tree_attention_ops.h"

namespace ingot::kernels {
namespace {

struct Seconds {
  double wall, cpu;
};

Seconds Time(const std::function<void()>& f) {
  const std::clock_t cpu = std::clock();
  const auto wall = std::chrono::steady_clock::now();
  f();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - wall).count(),
          static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC};
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// A quantity that every round measures.
struct Figure {
  std::string shape, pass, dtype;
  double flops;      // per call
  double tiles = 0;  // unmasked, per call; 0 = not counted
  std::function<void()> call;
  std::vector<double> wall, cpu;
};

struct Forest {
  std::string name;
  std::vector<int32_t> visible_end;
};

std::vector<Forest> Forests() {
  return {{"causal-8k", CausalTree(8192)},
          {"causal-16k", CausalTree(16384)},
          {"group-8", GroupTree(4096, 512, 8)},
          {"group-16", GroupTree(1024, 1024, 16)},
          {"dialogue-20", DialogueTree(4096, 20, 160, 512, 160)}};
}
constexpr const char* kDecode = "decode-16x2k";
constexpr int64_t kLinearRows[] = {1, 16, 2048};

std::string LinearName(int64_t rows) { return "linear-" + std::to_string(rows); }

double VisiblePairs(const std::vector<int32_t>& visible_end) {
  double pairs = 0;
  for (size_t j = 0; j < visible_end.size(); ++j) pairs += visible_end[j] - static_cast<double>(j);
  return pairs;
}

double VisibleTiles(const std::vector<int32_t>& visible_end) {
  const int64_t rows = static_cast<int64_t>(visible_end.size());
  const tiles::TileIndex index(visible_end.data(), nullptr, 0, rows);
  double tiles = 0;
  for (int64_t q = 0; q < rows; q += kKeyTile) {
    const tiles::QueryRange queries = index.Queries(q, std::min(rows, q + kKeyTile));
    tiles += static_cast<double>(index.Count(0, index.End(queries), queries));
  }
  return tiles;
}

class Bench {
 public:
  explicit Bench(const AttentionBenchOptions& options) : o_(options) {}

  void Add(const std::string& dtype) {
    const at::ScalarType type = dtype == "bf16" ? at::kBFloat16 : at::kFloat;
    // A BLAS library's best product depends on the machine, so the benchmark times a large one, one with a transposed
    // side, and one with sides that fit into the caches.
    const int64_t n = dtype == "bf16" ? 4096 : 2048;
    AddGemm("square-" + std::to_string(n), {n, n, n}, /*turned=*/false, type, dtype);
    AddGemm("turned-" + std::to_string(n), {n, n, n}, /*turned=*/true, type, dtype);
    AddGemm("turned-" + std::to_string(n) + "x1024x1024", {n, 1024, 1024}, /*turned=*/true, type, dtype);
    for (const Forest& forest : Forests()) {
      if (Wanted(forest.name)) AddStream(forest, type, dtype);
    }
    if (Wanted(kDecode)) AddDecode(type, dtype);
    for (const int64_t rows : kLinearRows) {
      if (Wanted(LinearName(rows))) AddLinear(rows, type, dtype);
    }
  }

  void Run() {
    for (int round = -1; round < o_.repeat; ++round) {  // round -1 is not counted
      for (Figure& f : figures_) {
        const Seconds s = Time(f.call);
        if (round < 0) continue;
        f.wall.push_back(s.wall);
        f.cpu.push_back(s.cpu);
      }
    }
  }

  void Emit(const std::function<void(const std::string&)>& emit) const {
    for (const Figure& f : figures_) {
      const Figure& gemm = *std::max_element(figures_.begin(), figures_.end(), [&](const Figure& x, const Figure& y) {
        const auto rate = [&](const Figure& g) {
          return g.pass == "gemm" && g.dtype == f.dtype ? g.flops / Median(g.wall) : 0.0;
        };
        return rate(x) < rate(y);
      });
      const auto [low, high] = std::minmax_element(f.wall.begin(), f.wall.end());
      const double wall = Median(f.wall), cpu = Median(f.cpu);
      char line[1024];
      std::snprintf(line, sizeof(line),
                    "{\"bench\":\"attention\",\"shape\":\"%s\",\"pass\":\"%s\",\"dtype\":\"%s\",\"heads\":%lld,"
                    "\"kv_heads\":%lld,\"head_dim\":%lld,\"threads\":%d,\"instruction_set\":\"%s\",\"ms\":%.3f,"
                    "\"ms_min\":%.3f,\"ms_max\":%.3f,\"gflops\":%.1f,\"cpu_ms\":%.3f,\"of_gemm\":%.3f,"
                    "\"of_gemm_cpu\":%.3f,\"tiles\":%.0f,\"us_per_tile\":%.3f}",
                    f.shape.c_str(), f.pass.c_str(), f.dtype.c_str(), static_cast<long long>(o_.heads),
                    static_cast<long long>(o_.kv_heads), static_cast<long long>(o_.head_dim), at::get_num_threads(),
                    InstructionSet(), wall * 1e3, *low * 1e3, *high * 1e3, f.flops / wall * 1e-9, cpu * 1e3,
                    f.flops / wall / (gemm.flops / Median(gemm.wall)), f.flops / cpu / (gemm.flops / Median(gemm.cpu)),
                    f.tiles, f.tiles > 0 ? wall * 1e6 / f.tiles : 0.0);
      emit(line);
    }
  }

 private:
  bool Wanted(const std::string& shape) const {
    return o_.shapes.empty() || std::find(o_.shapes.begin(), o_.shapes.end(), shape) != o_.shapes.end();
  }

  // Adds [m, k] [k, n]. With `turned`, the second side is stored as [n, k].
  void AddGemm(const std::string& name, std::array<int64_t, 3> mnk, bool turned, at::ScalarType type,
               const std::string& dtype) {
    const auto [m, n, k] = mnk;
    const at::Tensor a = at::randn({m, k}).to(type);
    const at::Tensor b = turned ? at::randn({n, k}).to(type).t() : at::randn({k, n}).to(type);
    const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    at::Tensor c = at::empty({m, n}, type);
    figures_.push_back({name, "gemm", dtype, flops, 0, [=]() mutable { at::mm_out(c, a, b); }, {}, {}});
  }

  void AddStream(const Forest& forest, at::ScalarType type, const std::string& dtype) {
    const int64_t rows = static_cast<int64_t>(forest.visible_end.size());
    const at::Tensor q = at::randn({rows, o_.heads, o_.head_dim}).to(type), grad = at::randn_like(q);
    const at::Tensor k = at::randn({rows, o_.kv_heads, o_.head_dim}).to(type), v = at::randn_like(k);
    const at::Tensor end = at::tensor(forest.visible_end, at::kInt);
    const double scale = 1 / std::sqrt(static_cast<double>(o_.head_dim));
    const double pairs = VisiblePairs(forest.visible_end) * static_cast<double>(o_.heads * o_.head_dim);
    const double tiles = VisibleTiles(forest.visible_end) * static_cast<double>(o_.heads);
    const auto [out, lse] = TreeAttentionForward(q, k, v, end, scale);
    figures_.push_back(
        {forest.name, "forward", dtype, 4 * pairs, tiles, [=] { TreeAttentionForward(q, k, v, end, scale); }, {}, {}});
    const c10::OperatorHandle backward =
        c10::Dispatcher::singleton().findSchemaOrThrow("ingot::tree_attention_backward", "");
    figures_.push_back({forest.name,
                        "backward",
                        dtype,
                        10 * pairs,
                        tiles,
                        [=, out = out, lse = lse] {
                          backward.typed<TreeAttentionBackwardSignature>().call(grad, q, k, v, out, lse, scale, end, 0,
                                                                                {}, {}, {}, {}, 0, 0.0, {});
                        },
                        {},
                        {}});
    if (!forest.name.starts_with("causal")) return;
    const auto heads_first = [](const at::Tensor& t) { return t.transpose(0, 1).unsqueeze(0).contiguous(); };
    const at::Tensor hq = heads_first(q), hk = heads_first(k), hv = heads_first(v);
    figures_.push_back({forest.name,
                        "sdpa-forward",
                        dtype,
                        4 * pairs,
                        0,
                        [=] { at::scaled_dot_product_attention(hq, hk, hv, {}, 0, true, scale, true); },
                        {},
                        {}});
  }

  void AddDecode(at::ScalarType type, const std::string& dtype) {
    constexpr int64_t kSequences = 16, kContext = 2048, kPage = 16, kPages = kContext / kPage;
    const at::Tensor q = at::randn({kSequences, o_.heads, o_.head_dim}).to(type);
    const at::Tensor k = at::randn({kSequences * kPages, kPage, o_.kv_heads, o_.head_dim}).to(type),
                     v = at::randn_like(k);
    std::vector<int32_t> pages(kSequences * kPages);
    std::iota(pages.begin(), pages.end(), 0);
    std::shuffle(pages.begin(), pages.end(), std::mt19937(1));
    std::vector<int64_t> sequences;
    for (int64_t s = 0; s < kSequences; ++s) sequences.insert(sequences.end(), {s, 1, kContext - 1, kContext, 0});
    TreeAttentionOptions options;
    options.scale = 1 / std::sqrt(static_cast<double>(o_.head_dim));
    options.block_table = at::tensor(pages, at::kInt).view({kSequences, kPages});
    options.sequences = at::tensor(sequences, at::kLong).view({kSequences, 5});
    const double pairs = static_cast<double>(kSequences * kContext * o_.heads * o_.head_dim);
    figures_.push_back(
        {kDecode, "decode", dtype, 4 * pairs, 0, [=] { TreeAttentionForward(q, k, v, options); }, {}, {}});
  }

  void AddLinear(int64_t rows, at::ScalarType type, const std::string& dtype) {
    constexpr int64_t kIn = 4096, kOut = 4096;
    const at::Tensor x = at::randn({rows, kIn}).to(type), weight = at::randn({kOut, kIn}).to(type);
    const double flops = 2.0 * static_cast<double>(rows * kIn * kOut);
    figures_.push_back({LinearName(rows), "linear", dtype, flops, 0, [=] { LinearOp(x, weight, {}); }, {}, {}});
    figures_.push_back({LinearName(rows), "torch-linear", dtype, flops, 0, [=] { at::linear(x, weight); }, {}, {}});
  }

  const AttentionBenchOptions& o_;
  std::vector<Figure> figures_;
};

}  // namespace

std::vector<std::string> AttentionBenchShapes() {
  std::vector<std::string> names;
  for (const Forest& forest : Forests()) names.push_back(forest.name);
  names.push_back(kDecode);
  for (const int64_t rows : kLinearRows) names.push_back(LinearName(rows));
  return names;
}

void RunAttentionBench(const AttentionBenchOptions& options, const std::function<void(const std::string&)>& emit) {
  const std::vector<std::string> known = AttentionBenchShapes();
  for (const std::string& shape : options.shapes) {
    std::string all;
    for (const std::string& name : known) all += " " + name;
    TORCH_CHECK(std::find(known.begin(), known.end(), shape) != known.end(), "unknown shape '", shape,
                "'; known:", all);
  }
  TORCH_CHECK(options.repeat > 0 && options.heads > 0 && options.kv_heads > 0 && options.head_dim > 0 &&
                  options.heads % options.kv_heads == 0,
              "attention bench: repeat, heads, kv_heads and head_dim must be positive, and heads must be a multiple of "
              "kv_heads");
  if (const std::string& set = options.instruction_set; !set.empty()) {
    const std::string now = LimitInstructionSet(set.c_str());
    TORCH_CHECK(now == set, "instruction set '", set,
                "' is not available here: of amx, avx512bf16, avx512, avx2, and portable, ", now, " would run");
  }
  const at::NoGradGuard no_grad;
  for (const std::string& dtype : options.dtypes.empty() ? std::vector<std::string>{"bf16", "fp32"} : options.dtypes) {
    TORCH_CHECK(dtype == "bf16" || dtype == "fp32", "unknown dtype '", dtype, "'; known: bf16 and fp32");
    Bench bench(options);
    bench.Add(dtype);
    bench.Run();
    bench.Emit(emit);
  }
}

}  // namespace ingot::kernels
