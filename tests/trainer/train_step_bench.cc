// The time of an optimizer step at the size of the smoke run, and its parts.
//
//   cmake --preset release
//   ninja -C build/release train_step_bench
//   build/release/tests/trainer/train_step_bench [threads] [steps] [groups] [samples]
//
// Workload: a model of about 1M parameters (hidden 128, 4 layers, vocabulary 262), groups x samples episodes of two
// calls each over a shared system prompt, all at the current version. Prints the median step in CPU seconds, merged and
// unmerged tokens per second, and the GEMM bound: the same matrix products alone (forward, and twice that backward),
// measured in the same run. Not measured: waiting, publishing, checkpoints, the probe's extra calls.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "makers.h"
#include "trainer/trainer.h"

namespace ingot::trainer {
namespace {

model::ModelConfig SmokeShape() {
  model::ModelConfig config;
  config.vocab_size = 262;
  config.hidden_size = 128;
  config.intermediate_size = 448;
  config.num_hidden_layers = 4;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 32;
  config.max_position_embeddings = 512;
  config.tie_word_embeddings = true;
  config.qk_norm = true;
  return config;
}

CallSpec Call(const std::vector<int32_t>& context, const std::vector<int32_t>& sampled, int64_t version) {
  CallSpec call{context, sampled, {}, {}, {}, 1.0f};
  call.logprobs.assign(sampled.size(), -5.5f);
  call.versions.assign(sampled.size(), version);
  return call;
}

TrainBatch Workload(int64_t step, int groups, int samples) {
  Draws draws(static_cast<uint64_t>(step));
  const auto system = draws.Tokens(100, 256);
  TrainBatch batch;
  batch.step = step;
  for (int g = 0; g < groups; ++g) {
    const auto prompt = Join(system, draws.Tokens(40, 256));
    std::vector<v1::EpisodeTree> episodes;
    for (int s = 0; s < samples; ++s) {
      const auto first = draws.Tokens(25, 256);
      const auto history = Join(Join(prompt, first), draws.Tokens(25, 256));
      episodes.push_back(MakeEpisode(absl::StrCat(g, ".", s), s % 2,
                                     {Call(prompt, first, step), Call(history, draws.Tokens(20, 256), step)}));
    }
    batch.groups.push_back(MakeGroup(g, std::move(episodes)));
  }
  return batch;
}

// Processor time of the process, summed over threads: on a shared machine wall time says little.
double Now() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Seconds of the layers' products over `rows` tokens and the head's over `head_rows`, forward and backward.
double GemmSeconds(const model::ModelConfig& config, int64_t rows, int64_t head_rows) {
  const at::NoGradGuard no_history;
  const auto product = [](int64_t n, int64_t in, int64_t out) {
    const at::Tensor x = at::randn({n, in}), w = at::randn({out, in}), g = at::randn({n, out});
    const double start = Now();
    at::mm(x, w.t());
    at::mm(g, w);
    at::mm(g.t(), x);
    return Now() - start;
  };
  const int64_t d = config.hidden_size, f = config.intermediate_size;
  const int64_t q = config.num_attention_heads * config.head_dim, kv = config.num_key_value_heads * config.head_dim;
  std::vector<double> seconds;
  for (int round = 0; round < 5; ++round) {
    double total = product(head_rows, d, config.vocab_size);
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      total += product(rows, d, q) + 2 * product(rows, d, kv) + product(rows, q, d) + 2 * product(rows, d, f) +
               product(rows, f, d);
    }
    seconds.push_back(total);
  }
  return Median(seconds);
}

int Main(int threads, int steps, int groups, int samples) {
  TrainerOptions options;
  options.threads = threads;
  options.probe_tokens = 0;
  const auto config = SmokeShape();
  auto trainer = Trainer::Create(options, config, model::Parameters::Init(config, 1, at::kFloat));
  if (!trainer.ok()) {
    std::fprintf(stderr, "%s\n", std::string(trainer.status().message()).c_str());
    return 1;
  }
  std::vector<double> step_seconds, data_seconds;
  double merged = 0, unmerged = 0, loss_tokens = 0;
  for (int64_t step = 0; step < steps; ++step) {
    const TrainBatch batch = Workload(step, groups, samples);
    const double start = Now();
    const auto report = (*trainer)->TrainStep(batch);
    step_seconds.push_back(Now() - start);
    if (!report.ok()) {
      std::fprintf(stderr, "%s\n", std::string(report.status().message()).c_str());
      return 1;
    }
    data_seconds.push_back(report->metrics.at("perf/data_seconds"));
    merged = report->metrics.at("tree/merged_tokens");
    unmerged = report->metrics.at("tree/unmerged_tokens");
    loss_tokens = report->metrics.at("batch/loss_tokens");
  }
  const double seconds = Median(step_seconds);
  const double gemm = GemmSeconds(config, static_cast<int64_t>(merged), static_cast<int64_t>(loss_tokens));
  std::printf("threads %d, parameters %lld, merged tokens %.0f, unmerged %.0f, loss tokens %.0f\n", threads,
              static_cast<long long>(config.ParameterCount()), merged, unmerged, loss_tokens);
  std::printf("step %.3f CPU s (data %.4f s): %.0f merged tokens/s, %.0f unmerged tokens/s\n", seconds,
              Median(data_seconds), merged / seconds, unmerged / seconds);
  std::printf("matrix products alone %.3f CPU s: the step takes %.2f times as long\n", gemm, seconds / gemm);
  return 0;
}

}  // namespace
}  // namespace ingot::trainer

int main(int argc, char** argv) {
  const auto argument = [&](int index, int fallback) { return argc > index ? std::atoi(argv[index]) : fallback; };
  return ingot::trainer::Main(argument(1, 1), argument(2, 10), argument(3, 6), argument(4, 16));
}
