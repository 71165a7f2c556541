#include "app/commands/bench/rollout_bench.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <ostream>
#include <thread>

#include "app/run/process.h"
#include "app/terminal/progress.h"
#include "base/json.h"
#include "base/rng.h"
#include "model/parameters.h"
#include "rollout/engine/engine.h"
#include "rollout/engine/torch_runner.h"
#include "trainer/weights_of.h"

namespace ingot::app {
namespace {

class Bench {
 public:
  Bench(const RolloutBenchArgs& args, const model::ModelConfig& config, rollout::Engine& engine, std::ostream& out)
      : args_(args), config_(config), engine_(engine), out_(out) {}

  absl::Status Run() {
    INGOT_RETURN_IF_ERROR(Seconds(1, 16, 2).status());  // lets libraries allocate their memory
    std::vector<double> rates;
    for (int i = 0; i < args_.repeat; ++i) {
      INGOT_ASSIGN_OR_RETURN(const double seconds, Seconds(1, args_.prompt_tokens, 1));
      rates.push_back(args_.prompt_tokens / seconds);
    }
    Print("prefill", 1, "prompt_tokens", args_.prompt_tokens, rates);
    for (const int streams : args_.streams) {
      rates.clear();
      for (int i = 0; i < args_.repeat; ++i) {
        // Excludes the time for the prompts and the first tokens, which is measured by a round with one token each.
        INGOT_ASSIGN_OR_RETURN(const double first, Seconds(streams, kShortPrompt, 1));
        INGOT_ASSIGN_OR_RETURN(const double all, Seconds(streams, kShortPrompt, args_.new_tokens));
        rates.push_back(streams * (args_.new_tokens - 1) / std::max(all - first, 1e-9));
      }
      Print("decode", streams, "new_tokens", args_.new_tokens, rates);
    }
    return absl::OkStatus();
  }

 private:
  static constexpr int kShortPrompt = 16;

  // Returns the wall time of `streams` concurrent requests, each with its own prompt.
  absl::StatusOr<double> Seconds(int streams, int prompt_tokens, int new_tokens) {
    std::deque<std::promise<absl::Status>> ends(static_cast<size_t>(streams));
    std::vector<std::unique_ptr<rollout::Client::Request>> requests;
    const auto start = std::chrono::steady_clock::now();
    for (std::promise<absl::Status>& end : ends) {
      v1::GenerateRequest ask;
      for (int i = 0; i < prompt_tokens; ++i) {
        ask.add_prompt_ids(
            static_cast<int32_t>(base::DeriveSeed(17, drawn_++) % static_cast<uint64_t>(config_.vocab_size)));
      }
      ask.mutable_sampling()->set_temperature(1);
      ask.mutable_sampling()->set_seed(drawn_);
      ask.mutable_sampling()->set_max_new_tokens(new_tokens);
      ask.mutable_sampling()->set_ignore_eos(true);
      ask.set_pinned_version(-1);
      requests.push_back(engine_.Generate(std::move(ask), [&end](absl::StatusOr<v1::GenerateChunk> chunk) {
        if (!chunk.ok()) return end.set_value(chunk.status());
        if (chunk->finish() != v1::FINISH_UNSPECIFIED) end.set_value(absl::OkStatus());
      }));
    }
    absl::Status status;
    for (std::promise<absl::Status>& end : ends) status.Update(end.get_future().get());
    INGOT_RETURN_IF_ERROR(status);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  void Print(const char* figure, int streams, const char* unit, int tokens, std::vector<double> rates) {
    std::sort(rates.begin(), rates.end());
    lines_.Print(out_, base::PrintJson(base::json::value{{"figure", figure},
                                                         {"streams", streams},
                                                         {unit, tokens},
                                                         {"tokens_per_second", rates[rates.size() / 2]},
                                                         {"threads", engine_.options().threads},
                                                         {"parameters", config_.ParameterCount()},
                                                         {"dtype", config_.torch_dtype}}));
  }

  const RolloutBenchArgs& args_;
  const model::ModelConfig& config_;
  rollout::Engine& engine_;
  std::ostream& out_;
  Between lines_{"bench rollout"};
  uint64_t drawn_ = 0;
};

absl::Status Run(const RolloutBenchArgs& args, std::ostream& out) {
  auto loading = std::make_unique<Underway>("bench: loading " + args.dir);
  INGOT_ASSIGN_OR_RETURN(const model::ModelFolder folder, model::LoadModelDir(args.dir));
  loading.reset();
  rollout::EngineOptions options;
  options.threads = args.threads > 0 ? args.threads : static_cast<int>(std::thread::hardware_concurrency());
  const int most = *std::max_element(args.streams.begin(), args.streams.end());
  options.max_running = std::max(most, options.max_running);
  const int64_t needed = args.prompt_tokens + int64_t{most} * (args.new_tokens + 64);
  options.kv_cache_tokens = std::max<int64_t>(needed, 4096);
  const int longest = std::max(args.prompt_tokens + 1, 16 + args.new_tokens);
  if (longest > folder.config.max_position_embeddings) {
    return absl::InvalidArgumentError(
        absl::StrCat("a request of ", longest, " tokens is longer than the model's context, ",
                     folder.config.max_position_embeddings, ": lower --prompt-tokens or --new-tokens"));
  }
  INGOT_ASSIGN_OR_RETURN(const auto snapshot, trainer::SnapshotOf(0, folder.parameters.tensors()));
  rollout::Engine::Parts parts;
  INGOT_ASSIGN_OR_RETURN(parts.runner, rollout::NewTorchRunner(folder.config, options, "cpu"));
  INGOT_ASSIGN_OR_RETURN(const auto engine, rollout::Engine::Create(options, std::move(parts), snapshot));
  return Bench(args, folder.config, *engine, out).Run();
}

}  // namespace

int BenchRollout(const RolloutBenchArgs& args, std::ostream& out, std::ostream& errors) {
  const bool fits = args.prompt_tokens > 0 && args.new_tokens > 1 && args.repeat > 0 && !args.streams.empty() &&
                    *std::min_element(args.streams.begin(), args.streams.end()) > 0;
  if (!fits) {
    errors << "ingot bench rollout: --prompt-tokens, --streams and --repeat must be above 0, --new-tokens above 1\n";
    return 2;
  }
  const absl::Status status = Run(args, out);
  return status.ok() ? 0 : Fail(status);
}

}  // namespace ingot::app
