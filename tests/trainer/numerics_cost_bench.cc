// The cost of `numerics: exact` in a training pass (forward, loss and backward over merged trees), compared with
// `fast`.
//
//   cmake --preset release
//   ninja -C build/release numerics_cost_bench
//   build/release/tests/trainer/numerics_cost_bench [threads=1] [rounds=5]
//
// A model of 3.0M parameters: hidden 256, 3 layers, 8 heads over 4, vocabulary 2048. Shapes:
// - `group`: a prompt of 1K and 8 samples of 256;
// - `dialogue`: 16 turns of 100 tokens below a prompt of 512; 60 of them are thinking, dropped from the next turn's
//   context;
// - `short`: 96 episodes of two calls below prompts of 140, samples of 20 to 25.
//
// Prints one JSON object per shape and dtype: the least CPU seconds of interleaved rounds, of the whole pass and of the
// forward pass alone. Rollout has no such switch; benchmarks/rollout_bench includes its cost of batch independence.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include "makers.h"
#include "tiny_model.h"
#include "trainer/pass/forest_pass.h"
#include "tree/cut.h"

namespace ingot::trainer {
namespace {

model::ModelConfig Shape() {
  model::ModelConfig config;
  config.vocab_size = 2048;
  config.hidden_size = 256;
  config.intermediate_size = 768;
  config.num_hidden_layers = 3;
  config.num_attention_heads = 8;
  config.num_key_value_heads = 4;
  config.head_dim = 32;
  config.max_position_embeddings = 4096;
  config.tie_word_embeddings = true;
  config.qk_norm = true;
  return config;
}

void Add(std::vector<tree::CallPath>& calls, const std::vector<int32_t>& context, const std::vector<int32_t>& sampled) {
  tree::CallPath call;
  call.context = tree::TokenPath(context);
  call.sampled = sampled;
  call.logprobs.assign(sampled.size(), 0);
  call.versions.assign(sampled.size(), 0);
  call.kv_mixed.assign(sampled.size(), 0);
  calls.push_back(std::move(call));
}

std::vector<tree::CallPath> Calls(const std::string& shape) {
  Draws draws(1);
  std::vector<tree::CallPath> calls;
  const auto tokens = [&](int64_t n) { return draws.Tokens(n, 2048); };
  if (shape == "group") {
    const auto prompt = tokens(1000);
    for (int s = 0; s < 8; ++s) Add(calls, prompt, tokens(256));
  } else if (shape == "dialogue") {
    auto history = tokens(512);
    for (int turn = 0; turn < 16; ++turn) {
      const auto thinking = tokens(60), answer = tokens(20);
      Add(calls, history, Join(thinking, answer));
      history = Join(Join(history, answer), tokens(20));
    }
  } else {
    const auto system = tokens(100);
    for (int g = 0; g < 6; ++g) {
      const auto prompt = Join(system, tokens(40));
      for (int s = 0; s < 16; ++s) {
        const auto first = tokens(25);
        Add(calls, prompt, first);
        Add(calls, Join(Join(prompt, first), tokens(25)), tokens(20));
      }
    }
  }
  return calls;
}

// The loss that is the sum of all log-probs.
class Sum final : public EntryLoss {
 public:
  double Evaluate(std::span<const tree::LossEntry>, std::span<const double> logprobs, std::span<const double>,
                  std::span<double> by_logprob, std::span<double>) override {
    std::fill(by_logprob.begin(), by_logprob.end(), 1e-3);
    double sum = 0;
    for (const double logprob : logprobs) sum += 1e-3 * logprob;
    return sum;
  }
  bool uses_entropy() const override { return false; }
};

double Now() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void Bench(at::ScalarType dtype, const char* shape, int rounds) {
  const auto config = Shape();
  const auto model = TrainableModel(config, model::Parameters::Init(config, 1, dtype));
  const auto calls = Calls(shape);
  const auto forest = *tree::PackForest(calls, tree::OrderChainFirst(calls));
  double step[2] = {1e9, 1e9}, forward[2] = {1e9, 1e9};
  for (int round = 0; round < rounds; ++round) {
    for (const bool exact : {false, true}) {
      PassOptions pass;
      pass.numerics = exact ? kernels::Numerics::kExact : kernels::Numerics::kFast;
      Sum sum;
      double start = Now();
      AccumulateGradients(model, forest, calls, sum, pass);
      step[exact] = std::min(step[exact], Now() - start);
      TakeGradients(model);
      start = Now();
      ScoreForest(model, forest, calls, pass);
      forward[exact] = std::min(forward[exact], Now() - start);
    }
  }
  std::printf(
      "{\"bench\":\"numerics_cost\",\"dtype\":\"%s\",\"shape\":\"%s\",\"merged_tokens\":%zu,\"fast_step_s\":%.4f,"
      "\"exact_step_s\":%.4f,\"step_cost\":%.3f,\"fast_forward_s\":%.4f,\"exact_forward_s\":%.4f,\"forward_cost\":%.3f}"
      "\n",
      dtype == at::kBFloat16 ? "bf16" : "fp32", shape, forest.size(), step[0], step[1], step[1] / step[0] - 1,
      forward[0], forward[1], forward[1] / forward[0] - 1);
  std::fflush(stdout);
}

}  // namespace
}  // namespace ingot::trainer

int main(int argc, char** argv) {
  at::set_num_threads(argc > 1 ? std::atoi(argv[1]) : 1);
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const char* shape : {"group", "dialogue", "short"}) ingot::trainer::Bench(dtype, shape, rounds);
  }
  return 0;
}
