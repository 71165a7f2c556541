#include "app/commands/bench/kv_bench.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <ostream>
#include <thread>
#include <utility>

#include "app/run/process.h"
#include "app/terminal/progress.h"
#include "base/json.h"
#include "base/rng.h"
#include "kv/file_store.h"
#include "model/parameters.h"
#include "rollout/engine/engine.h"
#include "rollout/engine/torch_runner.h"
#include "trainer/weights_of.h"

namespace ingot::app {
namespace {

// Engines learn from their first requests how fast they compute and read, and only then read from the store.
constexpr int kLearningRounds = 8, kLearningTokens = 256;

model::ModelFolder RandomKvModel(int longest) {
  model::ModelFolder folder;
  model::ModelConfig& config = folder.config;
  config.vocab_size = 512;
  config.hidden_size = 256;
  config.intermediate_size = 768;
  config.num_hidden_layers = 8;
  config.num_attention_heads = 8;
  config.num_key_value_heads = 4;
  config.head_dim = 32;
  config.max_position_embeddings = longest + 64;
  config.qk_norm = config.tie_word_embeddings = true;
  config.torch_dtype = "bfloat16";
  folder.parameters = model::Parameters::Init(config, 1, at::kBFloat16);
  return folder;
}

struct TimedAnswer {
  int32_t id = -1, cached = 0;
  float logprob = 0;
  double ms = 0;
};

absl::StatusOr<TimedAnswer> Answer(rollout::Engine& engine, const v1::GenerateRequest& ask) {
  std::promise<absl::StatusOr<v1::GenerateChunk>> end;
  const auto start = std::chrono::steady_clock::now();
  const auto request = engine.Generate(ask, [&end](absl::StatusOr<v1::GenerateChunk> chunk) {
    if (!chunk.ok() || chunk->finish() != v1::FINISH_UNSPECIFIED) end.set_value(std::move(chunk));
  });
  INGOT_ASSIGN_OR_RETURN(const v1::GenerateChunk chunk, end.get_future().get());
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  if (chunk.token_ids_size() != 1) return absl::InternalError("an engine did not answer with one token");
  return TimedAnswer{chunk.token_ids(0), chunk.cached_tokens(), chunk.logprobs(0), took.count()};
}

class KvBench {
 public:
  KvBench(const KvBenchArgs& args, const model::ModelConfig& config, std::string store, std::ostream& out)
      : args_(args), config_(config), store_(std::move(store)), out_(out) {}

  absl::Status Run(const std::shared_ptr<const weights::Snapshot>& weights) {
    INGOT_ASSIGN_OR_RETURN(computes_, Start(weights, "", kv::Write::kNone));
    INGOT_ASSIGN_OR_RETURN(writes_, Start(weights, store_, kv::Write::kPrompts));
    INGOT_ASSIGN_OR_RETURN(reads_, Start(weights, store_, kv::Write::kNone));
    for (int round = 0; round < kLearningRounds; ++round) {
      for (const int tokens : args_.prompts) {
        if (tokens <= kLearningTokens) INGOT_RETURN_IF_ERROR(Round(tokens));
      }
    }
    for (const int tokens : args_.prompts) {
      compute_ms_.clear();
      store_ms_.clear();
      read_tokens_ = tokens;
      for (int round = 0; round < args_.repeat; ++round) INGOT_RETURN_IF_ERROR(Round(tokens));
      PrintLength(tokens);
    }
    PrintBreakEven(args_.prompts.back());
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<std::unique_ptr<rollout::Engine>> Start(const std::shared_ptr<const weights::Snapshot>& weights,
                                                         const std::string& store, kv::Write write) const {
    rollout::EngineOptions options;
    options.threads = args_.threads > 0 ? args_.threads : static_cast<int>(std::thread::hardware_concurrency());
    options.kv_cache_tokens = 2 * int64_t{*std::max_element(args_.prompts.begin(), args_.prompts.end())} + 4096;
    options.speculation.drafters.clear();
    options.kv_store.path = store;
    options.kv_store.chunk_tokens = args_.chunk_tokens;
    options.kv_store.write = write;
    rollout::Engine::Parts parts;
    if (options.kv_store.on()) {
      INGOT_ASSIGN_OR_RETURN(parts.store, kv::FileStore::Open(options.kv_store));
    }
    INGOT_ASSIGN_OR_RETURN(parts.runner, rollout::NewTorchRunner(config_, options, "cpu"));
    return rollout::Engine::Create(options, std::move(parts), weights);
  }

  absl::Status Round(int tokens) {
    v1::GenerateRequest ask;
    const uint64_t seed = base::DeriveSeed(23, asked_++);
    for (int i = 0; i <= tokens; ++i) {
      ask.add_prompt_ids(static_cast<int32_t>(base::DeriveSeed(seed, static_cast<uint64_t>(i)) %
                                              static_cast<uint64_t>(config_.vocab_size)));
    }
    ask.mutable_sampling()->set_temperature(1);
    ask.mutable_sampling()->set_seed(seed);
    ask.mutable_sampling()->set_ignore_eos(true);
    ask.mutable_sampling()->set_max_new_tokens(1);
    ask.set_pinned_version(-1);
    INGOT_ASSIGN_OR_RETURN(const TimedAnswer computed, Answer(*computes_, ask));
    INGOT_ASSIGN_OR_RETURN(const TimedAnswer written, Answer(*writes_, ask));
    INGOT_RETURN_IF_ERROR(AwaitChunks(tokens / args_.chunk_tokens));
    INGOT_ASSIGN_OR_RETURN(const TimedAnswer read, Answer(*reads_, ask));
    for (const TimedAnswer* answer : {&written, &read}) {
      if (answer->id == computed.id && answer->logprob == computed.logprob) continue;
      return absl::DataLossError(absl::StrCat("a prompt of ", tokens, " tokens has another answer with the store"));
    }
    compute_ms_.push_back(computed.ms);
    store_ms_.push_back(read.ms);
    read_tokens_ = std::min(read_tokens_, read.cached);
    return absl::OkStatus();
  }

  // Waits until the writer has written so many chunks more, or dropped them.
  absl::Status AwaitChunks(int64_t chunks) {
    expected_ += chunks;
    for (int i = 0; i < 60'000; ++i) {
      INGOT_ASSIGN_OR_RETURN(const v1::EngineStatusResponse status, writes_->Status());
      if (status.kv_store().put_chunks() + status.kv_store().put_dropped() >= expected_) return absl::OkStatus();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return absl::DeadlineExceededError(absl::StrCat("no chunk was written to ", store_, " for 60 s"));
  }

  static base::json::value Summary(std::vector<double>& values) {
    std::sort(values.begin(), values.end());
    return {{"median", values[values.size() / 2]}, {"least", values.front()}, {"most", values.back()}};
  }

  void PrintLength(int tokens) {
    lines_.Print(out_, base::PrintJson(base::json::value{{"prompt_tokens", tokens},
                                                         {"compute_ms", Summary(compute_ms_)},
                                                         {"store_ms", Summary(store_ms_)},
                                                         {"read_tokens", read_tokens_}}));
  }

  // compute_ms_ and store_ms_ are those of the longest prompt, in order.
  void PrintBreakEven(int tokens) {
    const v1::KvStoreStatus read = reads_->Status()->kv_store(), written = writes_->Status()->kv_store();
    const double compute_us = 1e3 * compute_ms_[compute_ms_.size() / 2] / tokens;
    const double bytes = static_cast<double>(written.bytes()) /
                         static_cast<double>(std::max<int64_t>(written.put_chunks(), 1) * args_.chunk_tokens);
    base::json::object line{{"prompt_tokens", tokens},
                            {"compute_us_per_token", compute_us},
                            {"bytes_per_token", bytes},
                            {"break_even_mb_per_second", bytes / compute_us},
                            {"threads", computes_->options().threads},
                            {"parameters", config_.ParameterCount()},
                            {"dtype", config_.torch_dtype}};
    if (read.fetched_tokens() > 0) {
      const double read_us = 1e6 * read.fetch_seconds() / static_cast<double>(read.fetched_tokens());
      line["read_us_per_token"] = read_us;
      line["read_mb_per_second"] = bytes / read_us;
    }
    lines_.Print(out_, base::PrintJson(line));
  }

  const KvBenchArgs& args_;
  const model::ModelConfig& config_;
  const std::string store_;
  std::ostream& out_;
  Between lines_{"bench kv"};
  std::unique_ptr<rollout::Engine> computes_, writes_, reads_;
  uint64_t asked_ = 0;
  int64_t expected_ = 0;
  // Of the length that is being measured.
  std::vector<double> compute_ms_, store_ms_;
  int32_t read_tokens_ = 0;
};

absl::Status RunKvBench(const KvBenchArgs& args, std::ostream& out) {
  const int longest = args.prompts.back();
  model::ModelFolder folder;
  if (args.model.empty()) {
    folder = RandomKvModel(longest);
  } else {
    INGOT_ASSIGN_OR_RETURN(folder, model::LoadModelDir(args.model));
  }
  if (longest + 2 > folder.config.max_position_embeddings) {
    return absl::InvalidArgumentError(absl::StrCat("a prompt of ", longest,
                                                   " tokens does not fit in the model's context, ",
                                                   folder.config.max_position_embeddings, ": lower --prompts"));
  }
  INGOT_ASSIGN_OR_RETURN(const auto snapshot, trainer::SnapshotOf(0, folder.parameters.tensors()));
  const std::string store = absl::StrCat(args.folder, "/ingot-bench-kv.", getpid());
  const absl::Status status = KvBench(args, folder.config, store, out).Run(snapshot);
  std::error_code ignored;
  std::filesystem::remove_all(store, ignored);
  return status;
}

}  // namespace

int BenchKv(const KvBenchArgs& args, std::ostream& out, std::ostream& errors) {
  const bool fits = args.repeat > 0 && args.threads >= 0 && args.chunk_tokens > 0 && !args.prompts.empty() &&
                    std::is_sorted(args.prompts.begin(), args.prompts.end()) &&
                    args.prompts.front() >= args.chunk_tokens;
  if (!fits) {
    errors << "ingot bench kv: --repeat and --chunk-tokens must be above 0, and --prompts ascending and at least "
              "--chunk-tokens\n";
    return 2;
  }
  const absl::Status status = RunKvBench(args, out);
  return status.ok() ? 0 : Fail(status);
}

}  // namespace ingot::app
