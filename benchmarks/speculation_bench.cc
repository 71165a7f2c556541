// What speculative decoding gains, and that it never costs more than 3 %: tokens per CPU second with and without it.
//
//   cmake --preset release -DINGOT_BUILD_BENCHMARKS=ON && ninja -C build/release speculation_bench
//   build/release/benchmarks/speculation_bench [turns=8] [threads=1] [bf16|fp32] [most_batch=64]
//
// A random model of 27.8M parameters (vocabulary 8192, width 512, 8 layers), prompts of 128 tokens, 96 sampled each.
// Its weights are scaled so that a token's distribution has about as few likely tokens as a language model's.
//
//   group    members 2 to 8 of a group, one at a time, after the first: drafts from the history
//   replay   a recorded call again, with its ids as draft_ids
//   alike    a batch of 8-member groups: as many likely guesses as above
//   unlike   a batch whose text does not repeat (temperature 3): nothing that can be guessed
//
// Turns are paired: each asks an engine without and one with speculation the same, in changing order, and compares the
// ids. Prints the median ratio of tokens per CPU second with its range, and the lower end of the one-sided 95 %
// confidence interval of the mean (t, of the logarithms). Not measured: HTTP, tokenizers, swaps, several engines.
#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/rng.h"
#include "model/parameters.h"
#include "rollout/engine.h"
#include "rollout/torch_runner.h"

namespace {

using namespace ingot;

constexpr int kVocab = 8192, kPromptTokens = 128, kNewTokens = 96;

model::ModelConfig Config() {
  model::ModelConfig config;
  config.vocab_size = kVocab;
  config.hidden_size = 512;
  config.intermediate_size = 1408;
  config.num_hidden_layers = 8;
  config.num_attention_heads = 8;
  config.num_key_value_heads = 4;
  config.head_dim = 64;
  config.max_position_embeddings = 512;
  config.qk_norm = true;
  config.tie_word_embeddings = true;
  return config;
}

std::shared_ptr<const weights::Snapshot> RandomWeights(bool bf16) {
  model::Parameters parameters = model::Parameters::Init(Config(), 1, bf16 ? at::kBFloat16 : at::kFloat);
  std::vector<weights::TensorView> views;
  for (auto& [name, tensor] : parameters.tensors()) {
    if (name == "model.embed_tokens.weight") tensor.mul_(12);
    views.push_back({name,
                     bf16 ? "BF16" : "F32",
                     tensor.sizes().vec(),
                     {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}});
  }
  return *weights::Snapshot::Copy(0, views);
}

v1::GenerateRequest Ask(uint64_t prompt, uint64_t seed, float temperature) {
  v1::GenerateRequest ask;
  for (int i = 0; i < kPromptTokens; ++i) {
    ask.add_prompt_ids(static_cast<int32_t>(base::DeriveSeed(prompt, static_cast<uint64_t>(i)) % kVocab));
  }
  ask.mutable_sampling()->set_temperature(temperature);
  ask.mutable_sampling()->set_seed(seed);
  ask.mutable_sampling()->set_ignore_eos(true);
  ask.mutable_sampling()->set_max_new_tokens(kNewTokens);
  ask.set_pinned_version(-1);
  return ask;
}

struct Round {
  double cpu_seconds = 0;
  std::vector<std::vector<int32_t>> ids;
};

// Asks for all at once, and waits for them.
Round RunBatch(rollout::Engine& engine, const std::vector<v1::GenerateRequest>& asks) {
  base::Mutex mu;
  base::CondVar done;
  size_t left = asks.size();
  Round round{.ids = std::vector<std::vector<int32_t>>(asks.size())};
  const std::clock_t start = std::clock();
  std::vector<std::unique_ptr<rollout::Client::Request>> requests;
  for (size_t i = 0; i < asks.size(); ++i) {
    requests.push_back(engine.Generate(asks[i], [&, i](absl::StatusOr<v1::GenerateChunk> chunk) {
      base::MutexLock lock(mu);
      if (chunk.ok()) round.ids[i].insert(round.ids[i].end(), chunk->token_ids().begin(), chunk->token_ids().end());
      if (chunk.ok() && chunk->finish() == v1::FINISH_UNSPECIFIED) return;
      if (!chunk.ok()) std::fprintf(stderr, "%s\n", chunk.status().ToString().c_str());
      --left;
      done.Signal();
    }));
  }
  {
    base::MutexLock lock(mu);
    while (left > 0) done.Wait(mu);
  }
  round.cpu_seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  return round;
}

class Pair {
 public:
  Pair(int threads, bool bf16) {
    const auto weights = RandomWeights(bf16);
    for (const bool speculates : {false, true}) {
      rollout::EngineOptions options;
      options.threads = threads;
      options.kv_cache_tokens = 32768;
      if (!speculates) options.speculation.drafters = {};
      if (speculates) options.speculation.drafters = {"given", "history"};
      rollout::Engine::Parts parts;
      parts.runner = *rollout::NewTorchRunner(Config(), options, "cpu");
      engines_[speculates] = *rollout::Engine::Create(options, std::move(parts), weights);
    }
  }

  // Asks both engines, and adds the ratio of their speeds.
  std::vector<std::vector<int32_t>> Turn(const std::vector<v1::GenerateRequest>& asks,
                                         const std::vector<v1::GenerateRequest>& with_drafts) {
    std::array<Round, 2> rounds;
    for (const bool second : {false, true}) {
      const bool on = second != (turns_ % 2 == 1);
      rounds[on] = RunBatch(*engines_[on], on ? with_drafts : asks);
    }
    if (rounds[0].ids != rounds[1].ids) {
      std::fprintf(stderr, "speculation changed an id\n");
      std::exit(1);
    }
    ++turns_;
    const auto tokens = static_cast<double>(asks.size()) * kNewTokens;
    off_.push_back(tokens / rounds[0].cpu_seconds);
    ratios_.push_back(rounds[0].cpu_seconds / rounds[1].cpu_seconds);
    return rounds[0].ids;
  }
  std::vector<std::vector<int32_t>> Turn(const std::vector<v1::GenerateRequest>& asks) { return Turn(asks, asks); }

  // Asks both engines without measuring, and returns the ids.
  std::vector<std::vector<int32_t>> Ids(const std::vector<v1::GenerateRequest>& asks) {
    const v1::EngineStatusResponse before = *engines_[1]->Status();
    RunBatch(*engines_[0], asks);
    Round round = RunBatch(*engines_[1], asks);
    const v1::EngineStatusResponse now = *engines_[1]->Status();
    skipped_passes_ += now.sampling_passes() - before.sampling_passes();
    skipped_tokens_ += now.sampled_tokens() - before.sampled_tokens();
    return std::move(round.ids);
  }

  void Print(const char* workload, size_t batch) {
    std::sort(ratios_.begin(), ratios_.end());
    std::sort(off_.begin(), off_.end());
    const v1::EngineStatusResponse now = *engines_[1]->Status();
    int64_t drafted = 0, accepted = 0;
    for (int i = 0; i < now.drafters_size(); ++i) {
      drafted += now.drafters(i).drafted() - (before_.drafters_size() > i ? before_.drafters(i).drafted() : 0);
      accepted += now.drafters(i).accepted() - (before_.drafters_size() > i ? before_.drafters(i).accepted() : 0);
    }
    const auto passes = static_cast<double>(now.sampling_passes() - before_.sampling_passes() - skipped_passes_);
    const auto tokens = static_cast<double>(now.sampled_tokens() - before_.sampled_tokens() - skipped_tokens_);
    std::printf("%-8s %5zu %6zu %10.0f %8.2fx  %5.2f to %5.2f %11.2fx %10.0f%% %12.2f\n", workload, batch,
                ratios_.size(), off_[off_.size() / 2], ratios_[ratios_.size() / 2], ratios_.front(), ratios_.back(),
                LowerBound(), drafted == 0 ? 0.0 : 100.0 * static_cast<double>(accepted) / static_cast<double>(drafted),
                tokens / passes);
    std::fflush(stdout);
    off_.clear();
    ratios_.clear();
    before_ = now;
    skipped_passes_ = skipped_tokens_ = 0;
  }

 private:
  double LowerBound() const {
    constexpr std::array<double, 16> kT = {6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.90, 1.86,
                                           1.83, 1.81, 1.80, 1.78, 1.77, 1.76, 1.75, 1.75};
    const auto n = static_cast<double>(ratios_.size());
    if (n < 2) return 0;
    double mean = 0, squares = 0;
    for (const double ratio : ratios_) mean += std::log(ratio) / n;
    for (const double ratio : ratios_) squares += (std::log(ratio) - mean) * (std::log(ratio) - mean) / (n - 1);
    return std::exp(mean - kT[std::min(ratios_.size() - 2, kT.size() - 1)] * std::sqrt(squares / n));
  }

  std::array<std::unique_ptr<rollout::Engine>, 2> engines_;
  int turns_ = 0;
  std::vector<double> off_, ratios_;
  v1::EngineStatusResponse before_;                  // at the last Print
  int64_t skipped_passes_ = 0, skipped_tokens_ = 0;  // of Ids since
};

constexpr float kAlike = 0.6f, kUnlike = 3;

std::vector<v1::GenerateRequest> Batch(size_t size, uint64_t salt, float temperature) {
  std::vector<v1::GenerateRequest> asks;
  for (size_t i = 0; i < size; ++i) asks.push_back(Ask(1000 * salt + i / 8, 1000 * salt + i, temperature));
  return asks;
}

}  // namespace

int main(int argc, char** argv) {
  const int turns = argc > 1 ? std::atoi(argv[1]) : 8, threads = argc > 2 ? std::atoi(argv[2]) : 1;
  const bool bf16 = argc <= 3 || std::string(argv[3]) == "bf16";
  const size_t most_batch = argc > 4 ? static_cast<size_t>(std::atoi(argv[4])) : 64;
  Pair pair(threads, bf16);
  std::printf("%lld parameters, %s, %d thread(s)\n%-8s %5s %6s %10s %9s %15s %12s %11s %12s\n",
              static_cast<long long>(Config().ParameterCount()), bf16 ? "bf16" : "fp32", threads, "workload", "batch",
              "turns", "off tok/s", "median", "range", "95 % lower", "accepted", "tokens/pass");
  uint64_t salt = 1;
  pair.Ids(Batch(1, salt++, kUnlike));
  for (int group = 0; group < std::max(1, turns / 7); ++group, ++salt) {
    pair.Ids({Ask(salt, 8 * salt, kAlike)});
    for (uint64_t member = 1; member < 8; ++member) pair.Turn({Ask(salt, 8 * salt + member, kAlike)});
  }
  pair.Print("group", 1);
  for (int turn = 0; turn < turns; ++turn) {
    std::vector<v1::GenerateRequest> asks = Batch(1, salt++, 1), replayed = asks;
    const std::vector<int32_t> ids = pair.Ids(asks)[0];
    replayed[0].mutable_draft_ids()->Add(ids.begin(), ids.end());
    pair.Turn(asks, replayed);
  }
  pair.Print("replay", 1);
  for (const float temperature : {kAlike, kUnlike}) {
    for (size_t batch = 1; batch <= most_batch; batch *= 2) {
      pair.Ids(Batch(batch, salt++, temperature));  // measures the costs at this batch
      for (int turn = 0; turn < turns; ++turn) pair.Turn(Batch(batch, salt++, temperature));
      pair.Print(temperature == kAlike ? "alike" : "unlike", batch);
    }
  }
  return 0;
}
