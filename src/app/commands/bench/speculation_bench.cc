#include "app/commands/bench/speculation_bench.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <memory>
#include <ostream>
#include <thread>
#include <utility>

#include "app/run/process.h"
#include "app/terminal/progress.h"
#include "base/json.h"
#include "base/mutex.h"
#include "base/rng.h"
#include "model/parameters.h"
#include "rollout/engine/engine.h"
#include "rollout/engine/torch_runner.h"
#include "trainer/weights_of.h"

namespace ingot::app {
namespace {

constexpr int kGroup = 8;
constexpr double kUnlike = 3;

// Random weights. The logits' standard deviation is 2.7, so that a temperature of 0.6 leaves few likely tokens, and one
// of 3 leaves thousands.
model::ModelFolder RandomModel() {
  model::ModelFolder folder;
  model::ModelConfig& config = folder.config;
  config.vocab_size = 8192;
  config.hidden_size = 512;
  config.intermediate_size = 1408;
  config.num_hidden_layers = 8;
  config.num_attention_heads = 8;
  config.num_key_value_heads = 4;
  config.head_dim = 64;
  config.max_position_embeddings = 1024;
  config.qk_norm = true;
  config.tie_word_embeddings = false;
  config.torch_dtype = "bfloat16";
  folder.parameters = model::Parameters::Init(config, 1, at::kBFloat16);
  folder.parameters.tensors().at("lm_head.weight").mul_(6);
  return folder;
}

// Lower end of the one-sided 95 % confidence interval of the geometric mean.
double LowerBound(const std::vector<double>& ratios) {
  constexpr std::array<double, 15> kT = {6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.90, 1.86,
                                         1.83, 1.81, 1.80, 1.78, 1.77, 1.76, 1.75};
  const auto n = static_cast<double>(ratios.size());
  double mean = 0, variance = 0;
  for (const double ratio : ratios) mean += std::log(ratio) / n;
  for (const double ratio : ratios) variance += std::pow(std::log(ratio) - mean, 2) / (n - 1);
  return std::exp(mean - kT[std::min(ratios.size() - 2, kT.size() - 1)] * std::sqrt(variance / n));
}

class Bench {
 public:
  using Asks = std::vector<v1::GenerateRequest>;
  using Ids = std::vector<std::vector<int32_t>>;

  Bench(const SpeculationBenchArgs& args, const model::ModelConfig& config, std::ostream& out)
      : args_(args), config_(config), out_(out) {}

  absl::Status Run(const std::shared_ptr<const weights::Snapshot>& weights) {
    for (const bool speculates : {false, true}) INGOT_RETURN_IF_ERROR(Start(weights, speculates));
    INGOT_RETURN_IF_ERROR(Skip(Batch(1, kUnlike)).status());  // lets libraries allocate their memory
    INGOT_RETURN_IF_ERROR(RunGroups());
    INGOT_RETURN_IF_ERROR(RunReplays());
    for (const bool alike : {true, false}) {
      for (const int batch : args_.batches) {
        const double temperature = alike ? args_.alike_temperature : kUnlike;
        INGOT_RETURN_IF_ERROR(Skip(Batch(batch, temperature)).status());  // measures a step's costs
        for (int turn = 0; turn < args_.turns; ++turn) INGOT_RETURN_IF_ERROR(Turn(Batch(batch, temperature)).status());
        Print(alike ? "alike" : "unlike", batch);
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Start(const std::shared_ptr<const weights::Snapshot>& weights, bool speculates) {
    rollout::EngineOptions options;
    options.threads = args_.threads > 0 ? args_.threads : static_cast<int>(std::thread::hardware_concurrency());
    const int most = *std::max_element(args_.batches.begin(), args_.batches.end());
    options.max_running = std::max(most, options.max_running);
    options.max_batch_tokens = std::max(options.max_batch_tokens, options.max_running);
    options.kv_cache_tokens =
        std::max<int64_t>(8192, int64_t{most + 1} * (args_.prompt_tokens + args_.new_tokens + 16));
    options.speculation.drafters.clear();
    if (speculates) options.speculation.drafters = {"given", "history"};
    rollout::Engine::Parts parts;
    INGOT_ASSIGN_OR_RETURN(parts.runner, rollout::NewTorchRunner(config_, options, "cpu"));
    INGOT_ASSIGN_OR_RETURN(engines_[speculates], rollout::Engine::Create(options, std::move(parts), weights));
    return absl::OkStatus();
  }

  // Each group after its first member, whose text the others may repeat.
  absl::Status RunGroups() {
    for (int left = args_.turns; left > 0; left -= kGroup - 1) {
      const Asks group = Batch(kGroup, args_.alike_temperature);
      INGOT_RETURN_IF_ERROR(Skip({group[0]}).status());
      for (int member = 1; member < kGroup; ++member) {
        INGOT_RETURN_IF_ERROR(Turn({group[static_cast<size_t>(member)]}).status());
      }
    }
    Print("group", 1);
    return absl::OkStatus();
  }

  absl::Status RunReplays() {
    for (int turn = 0; turn < args_.turns; ++turn) {
      const Asks recorded = Batch(1, 1);
      INGOT_ASSIGN_OR_RETURN(const Ids ids, Skip(recorded));
      Asks replayed = recorded;
      replayed[0].mutable_draft_ids()->Add(ids[0].begin(), ids[0].end());
      INGOT_RETURN_IF_ERROR(Turn(recorded, replayed).status());
    }
    Print("replay", 1);
    return absl::OkStatus();
  }

  // Returns requests whose groups of kGroup share a prompt.
  Asks Batch(int size, double temperature) {
    Asks asks(static_cast<size_t>(size));
    ++salt_;
    for (size_t i = 0; i < asks.size(); ++i) {
      for (int at = 0; at < args_.prompt_tokens; ++at) {
        const uint64_t prompt = base::DeriveSeed(salt_, i / kGroup);
        asks[i].add_prompt_ids(static_cast<int32_t>(base::DeriveSeed(prompt, static_cast<uint64_t>(at)) %
                                                    static_cast<uint64_t>(config_.vocab_size)));
      }
      asks[i].mutable_sampling()->set_temperature(static_cast<float>(temperature));
      asks[i].mutable_sampling()->set_seed(base::DeriveSeed(salt_, 1000 + i));
      asks[i].mutable_sampling()->set_ignore_eos(true);
      asks[i].mutable_sampling()->set_max_new_tokens(args_.new_tokens);
      asks[i].set_pinned_version(-1);
    }
    return asks;
  }

  struct Round {
    double cpu_seconds = 0;
    Ids ids;
  };

  // Sends all requests at once, and waits for their ends.
  static absl::StatusOr<Round> Sample(rollout::Engine& engine, const Asks& asks) {
    base::Mutex mu;
    base::CondVar done;
    size_t left = asks.size();
    absl::Status status;
    Round round{.ids = Ids(asks.size())};
    const std::clock_t start = std::clock();
    std::vector<std::unique_ptr<rollout::Client::Request>> requests;
    for (size_t i = 0; i < asks.size(); ++i) {
      requests.push_back(engine.Generate(asks[i], [&, i](absl::StatusOr<v1::GenerateChunk> chunk) {
        base::MutexLock lock(mu);
        if (chunk.ok()) round.ids[i].insert(round.ids[i].end(), chunk->token_ids().begin(), chunk->token_ids().end());
        if (chunk.ok() && chunk->finish() == v1::FINISH_UNSPECIFIED) return;
        status.Update(chunk.status());
        --left;
        done.Signal();
      }));
    }
    {
      base::MutexLock lock(mu);
      while (left > 0) done.Wait(mu);
    }
    round.cpu_seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    INGOT_RETURN_IF_ERROR(status);
    return round;
  }

  absl::StatusOr<std::array<Round, 2>> Both(const Asks& asks, const Asks& with_drafts) {
    std::array<Round, 2> rounds;
    const bool first = ++pairs_ % 2 == 0;
    for (const bool on : {first, !first}) {
      INGOT_ASSIGN_OR_RETURN(rounds[on], Sample(*engines_[on], on ? with_drafts : asks));
    }
    if (rounds[0].ids == rounds[1].ids) return rounds;
    return absl::InternalError("speculation changed a sampled id");
  }

  absl::StatusOr<Ids> Turn(const Asks& asks) { return Turn(asks, asks); }
  absl::StatusOr<Ids> Turn(const Asks& asks, const Asks& with_drafts) {
    INGOT_ASSIGN_OR_RETURN(v1::EngineStatusResponse before, engines_[1]->Status());
    INGOT_ASSIGN_OR_RETURN(auto rounds, Both(asks, with_drafts));
    INGOT_ASSIGN_OR_RETURN(v1::EngineStatusResponse after, engines_[1]->Status());
    off_.push_back(static_cast<double>(after.sampled_tokens() - before.sampled_tokens()) / rounds[0].cpu_seconds);
    ratios_.push_back(rounds[0].cpu_seconds / rounds[1].cpu_seconds);
    tokens_ += after.sampled_tokens() - before.sampled_tokens();
    passes_ += after.sampling_passes() - before.sampling_passes();
    for (int i = 0; i < after.drafters_size(); ++i) {
      drafted_ += after.drafters(i).drafted() - before.drafters(i).drafted();
      accepted_ += after.drafters(i).accepted() - before.drafters(i).accepted();
    }
    return std::move(rounds[0].ids);
  }

  // Does not count.
  absl::StatusOr<Ids> Skip(const Asks& asks) {
    INGOT_ASSIGN_OR_RETURN(auto rounds, Both(asks, asks));
    return std::move(rounds[0].ids);
  }

  void Print(const char* workload, int batch) {
    std::sort(off_.begin(), off_.end());
    std::sort(ratios_.begin(), ratios_.end());
    const auto share = [](int64_t part, int64_t whole) {
      return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
    };
    lines_.Print(out_, base::PrintJson(base::json::value{{"workload", workload},
                                                         {"batch", batch},
                                                         {"pairs", ratios_.size()},
                                                         {"off", off_[off_.size() / 2]},
                                                         {"ratio", ratios_[ratios_.size() / 2]},
                                                         {"least", ratios_.front()},
                                                         {"most", ratios_.back()},
                                                         {"lower", LowerBound(ratios_)},
                                                         {"accepted", share(accepted_, drafted_)},
                                                         {"tokens_per_pass", share(tokens_, passes_)},
                                                         {"threads", engines_[0]->options().threads},
                                                         {"parameters", config_.ParameterCount()}}));
    off_.clear();
    ratios_.clear();
    tokens_ = passes_ = drafted_ = accepted_ = 0;
  }

  const SpeculationBenchArgs& args_;
  const model::ModelConfig& config_;
  std::ostream& out_;
  Between lines_{"bench speculation"};
  std::array<std::unique_ptr<rollout::Engine>, 2> engines_;  // without and with speculation
  uint64_t salt_ = 0, pairs_ = 0;
  // Since the last Print.
  std::vector<double> off_, ratios_;
  int64_t tokens_ = 0, passes_ = 0, drafted_ = 0, accepted_ = 0;
};

absl::Status Run(const SpeculationBenchArgs& args, std::ostream& out) {
  model::ModelFolder folder;
  if (args.dir.empty()) {
    folder = RandomModel();
  } else {
    INGOT_ASSIGN_OR_RETURN(folder, model::LoadModelDir(args.dir));
  }
  if (args.prompt_tokens + args.new_tokens > folder.config.max_position_embeddings) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a request of ", args.prompt_tokens + args.new_tokens, " tokens is longer than the model's context, ",
        folder.config.max_position_embeddings, ": lower --prompt-tokens or --new-tokens"));
  }
  INGOT_ASSIGN_OR_RETURN(const auto snapshot, trainer::SnapshotOf(0, folder.parameters.tensors()));
  return Bench(args, folder.config, out).Run(snapshot);
}

}  // namespace

int BenchSpeculation(const SpeculationBenchArgs& args, std::ostream& out, std::ostream& errors) {
  const bool fits = args.prompt_tokens > 0 && args.new_tokens > 1 && args.turns > 1 && args.threads >= 0 &&
                    args.alike_temperature > 0 && !args.batches.empty() &&
                    *std::min_element(args.batches.begin(), args.batches.end()) > 0;
  if (!fits) {
    errors << "ingot bench speculation: --prompt-tokens, --batches and --alike-temperature must be above 0, "
              "--new-tokens and --turns above 1\n";
    return 2;
  }
  const absl::Status status = Run(args, out);
  return status.ok() ? 0 : Fail(status);
}

}  // namespace ingot::app
