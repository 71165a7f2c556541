// Measures the differences between rollout's log-probs and the trainer's, stage by stage.
//
//   cmake --preset release
//   ninja -C build/release numerics_bench
//   build/release/tests/trainer/numerics_bench [threads=1]
//
// A real engine samples about five thousand tokens of branching conversations (branching_calls.h: forks at every offset
// of a key tile, radix cache, prompts in pieces of 48 rows, batches of any composition). The trainer scores each call
// alone and merged.
//
// Prints one JSON object per line: the histogram of |difference| of log-probs; and for each stage of a layer the share
// of rows that are not bit-equal in batches of 1, 7 and 64 instead of all at once (for attention: merged instead of in
// their own sequence).
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <string>

#include "advantages/branching_calls.h"
#include "kernels/torch/layers.h"
#include "kernels/torch/linear.h"
#include "kernels/torch/softmax.h"
#include "kernels/torch/tree_attention.h"
#include "trainer/pass/forest_pass.h"
#include "tree/cut.h"

namespace ingot::trainer {
namespace {

const char* Name(at::ScalarType dtype) { return dtype == at::kBFloat16 ? "bf16" : "fp32"; }

void PrintHistogram(at::ScalarType dtype, const char* layout, const std::vector<double>& differences) {
  constexpr double kEdges[] = {0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1e9};
  constexpr const char* kNames[] = {"0", "1e-7", "1e-6", "1e-5", "1e-4", "1e-3", "1e-2", "1e-1", "more"};
  int64_t counts[9] = {};
  double max = 0;
  for (const double d : differences) {
    max = std::max(max, d);
    int bin = 0;
    while (d > kEdges[bin]) ++bin;
    ++counts[bin];
  }
  std::printf("{\"bench\":\"logprob_difference\",\"dtype\":\"%s\",\"layout\":\"%s\",\"tokens\":%zu,\"max\":%.3g",
              Name(dtype), layout, differences.size(), max);
  for (int bin = 0; bin < 9; ++bin) std::printf(",\"up_to_%s\":%lld", kNames[bin], static_cast<long long>(counts[bin]));
  std::printf("}\n");
}

std::vector<double> Differences(const model::Transformer& model, const std::vector<tree::CallPath>& calls,
                                const std::vector<std::vector<int32_t>>& plan, const PassOptions& pass) {
  std::vector<double> differences;
  for (const auto& indices : plan) {
    const auto forest = *tree::PackForest(calls, indices);
    const PassResult result = ScoreForest(model, forest, calls, pass);
    for (size_t i = 0; i < forest.entries.size(); ++i) {
      const tree::LossEntry& e = forest.entries[i];
      differences.push_back(std::abs(result.logprobs[i] - double(calls[size_t(e.call)].logprobs[size_t(e.offset)])));
    }
  }
  return differences;
}

void BenchLogprobs(at::ScalarType dtype) {
  const auto config = BranchingConfig(dtype);
  const auto parameters = BranchingParameters(config, dtype);
  rollout::EngineOptions options;
  options.max_running = 24;
  options.max_batch_tokens = 48;
  const auto engine = EngineOver(config, options, parameters);
  Brancher brancher(*engine, config.vocab_size, 3);
  SampleBranches(brancher, 48);
  const auto model = *model::Transformer::Create(config, parameters);
  std::vector<std::vector<int32_t>> alone;
  for (int32_t i = 0; i < static_cast<int32_t>(brancher.calls.size()); ++i) alone.push_back({i});
  PrintHistogram(dtype, "alone", Differences(model, brancher.calls, alone, {}));
  const std::vector<std::vector<int32_t>> merged = {tree::OrderChainFirst(brancher.calls)};
  PrintHistogram(dtype, "merged, numerics fast", Differences(model, brancher.calls, merged, {}));
  PassOptions exact;
  exact.numerics = kernels::Numerics::kExact;
  PrintHistogram(dtype, "merged, numerics exact", Differences(model, brancher.calls, merged, exact));
}

using Stage = std::function<at::Tensor(const at::Tensor& rows, int64_t first)>;

// Share of rows of `stage` that differ when the batch is cut into pieces.
void PrintStage(at::ScalarType dtype, const char* name, const at::Tensor& input, const Stage& stage) {
  const at::Tensor whole = stage(input, 0).flatten(1);
  for (const int64_t piece : {1, 7, 64}) {
    std::vector<at::Tensor> parts;
    for (int64_t at = 0; at < input.size(0); at += piece) {
      parts.push_back(stage(input.slice(0, at, std::min(input.size(0), at + piece)).contiguous(), at).flatten(1));
    }
    const at::Tensor cut = at::cat(parts);
    const double rows = cut.ne(whole).any(1).to(at::kDouble).mean().item<double>();
    const double max = (cut.to(at::kDouble) - whole.to(at::kDouble)).abs().max().item<double>();
    std::printf(
        "{\"bench\":\"stage\",\"dtype\":\"%s\",\"stage\":\"%s\",\"batch\":%lld,\"rows_that_differ\":%.3f,\"max\":%.3g}"
        "\n",
        Name(dtype), name, static_cast<long long>(piece), rows, max);
  }
}

// A path of 100 tokens with a leaf at every offset of a tile: compares its rows in the merged stream with those in its
// own sequence.
void PrintForks(at::ScalarType dtype) {
  constexpr int64_t kSpine = 100, kLeaf = 20, kHeads = 4, kDim = 32;
  int64_t differ = 0, rows = 0;
  double max = 0;
  for (int64_t offset = 0; offset < kernels::kKeyTile; ++offset) {
    const int64_t fork = kSpine - offset, total = kSpine + kLeaf;
    const auto draw = [&](int64_t heads) { return at::randn({total, heads, kDim}).to(dtype); };
    const at::Tensor q = draw(kHeads), k = draw(2), v = draw(2);
    at::Tensor ends = at::full({total}, total, at::kInt);
    ends.slice(0, fork, kSpine).fill_(static_cast<int32_t>(kSpine));  // the first child ends before the second
    const double scale = 1 / std::sqrt(double(kDim));
    const at::Tensor merged = kernels::TreeAttention(q, k, v, ends, scale).slice(0, kSpine);
    const auto own = [&](const at::Tensor& t) { return at::cat({t.slice(0, 0, fork), t.slice(0, kSpine)}); };
    const at::Tensor alone = kernels::TreeAttention(own(q), own(k), own(v), at::Tensor(), scale).slice(0, fork);
    differ += merged.ne(alone).flatten(1).any(1).sum().item<int64_t>();
    rows += kLeaf;
    max = std::max(max, (merged.to(at::kDouble) - alone.to(at::kDouble)).abs().max().item<double>());
  }
  std::printf(
      "{\"bench\":\"stage\",\"dtype\":\"%s\",\"stage\":\"attention_after_a_fork\",\"rows_that_differ\":%.3f,\"max\":%."
      "3g}\n",
      Name(dtype), double(differ) / double(rows), max);
}

void BenchStages(at::ScalarType dtype) {
  constexpr int64_t kRows = 333, kWidth = 512, kOut = 1536, kVocab = 2048, kDim = 64;
  at::manual_seed(1);
  const at::Tensor x = at::randn({kRows, kWidth}).to(dtype), wide = at::randn({kRows, kOut}).to(dtype);
  const at::Tensor up = (at::randn({kOut, kWidth}) / 20).to(dtype), down = (at::randn({kWidth, kOut}) / 40).to(dtype);
  const at::Tensor head = (at::randn({kVocab, kWidth}) / 10).to(dtype), norm = at::ones({kWidth}).to(dtype);
  const at::Tensor head_norm = at::ones({kDim}).to(dtype), cos = at::randn({kRows, kDim / 2}).cos().to(dtype);
  const at::Tensor sin = at::randn({kRows, kDim / 2}).sin().to(dtype), positions = at::arange(kRows, at::kLong);
  PrintStage(dtype, "linear_up", x, [&](const at::Tensor& r, int64_t) { return kernels::LinearOp(r, up, {}); });
  PrintStage(dtype, "linear_down", wide, [&](const at::Tensor& r, int64_t) { return kernels::LinearOp(r, down, {}); });
  PrintStage(dtype, "linear_head", x, [&](const at::Tensor& r, int64_t) { return kernels::LinearOp(r, head, {}); });
  PrintStage(dtype, "rms_norm", x, [&](const at::Tensor& r, int64_t) { return kernels::RmsNormOp(r, norm, 1e-6); });
  PrintStage(dtype, "norm_rotate", x.view({kRows, kWidth / kDim, kDim}), [&](const at::Tensor& r, int64_t first) {
    return kernels::NormRotateOp(r, head_norm, 1e-6, cos, sin, positions.slice(0, first, first + r.size(0)));
  });
  PrintStage(dtype, "swiglu", wide, [&](const at::Tensor& r, int64_t) { return kernels::SwiGluOp(r, r); });
  PrintStage(dtype, "log_softmax", at::randn({kRows, kVocab}) * 4,
             [&](const at::Tensor& r, int64_t) { return kernels::Policy(r, at::ones({})).LogSoftmax(); });
  PrintForks(dtype);
}

}  // namespace
}  // namespace ingot::trainer

int main(int argc, char** argv) {
  const at::NoGradGuard no_history;
  at::set_num_threads(argc > 1 ? std::atoi(argv[1]) : 1);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    ingot::trainer::BenchLogprobs(dtype);
    ingot::trainer::BenchStages(dtype);
  }
  return 0;
}
