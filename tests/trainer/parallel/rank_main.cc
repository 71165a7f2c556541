// One rank of a trainer as a process, for rank_processes_test.cc: rank_main RANK SIZE PORT DEADLINE_MS STEPS FOLDER
// [SHARDING]. Rank 0 prints a line per step and writes its last checkpoint to FOLDER. Exits with 0 when all steps are
// trained, 75 when another rank was lost, 1 on any other error. With trainer.sharding given the model is one of 100 MB,
// and every rank prints what it held and what was predicted: "rank R held BYTES predicted BYTES".
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "../makers.h"
#include "../tiny_model.h"
#include "trainer/memory.h"
#include "trainer/parallel/rank_memory.h"
#include "trainer/process_memory.h"
#include "trainer/trainer.h"

namespace ingot::trainer {
namespace {

constexpr int kLost = 75;

absl::Status Lead(Trainer& trainer, int64_t steps, const std::string& folder) {
  while (trainer.version() < steps) {
    const int64_t step = trainer.version();
    INGOT_RETURN_IF_ERROR(trainer.TrainStep(RandomBatch(static_cast<uint64_t>(100 + step), 37, step)).status());
    INGOT_RETURN_IF_ERROR(trainer.TakeSnapshot().status());
    std::printf("step %lld\n", static_cast<long long>(step));
    std::fflush(stdout);
  }
  INGOT_RETURN_IF_ERROR(trainer.SaveCheckpoint(folder, {}).status());
  return trainer.Dismiss();
}

model::ModelConfig WideConfig() {
  model::ModelConfig config = TinyConfig();
  config.hidden_size = 512;
  config.intermediate_size = 2048;
  config.num_hidden_layers = 6;
  config.num_attention_heads = config.num_key_value_heads = 8;
  config.head_dim = 64;
  return config;
}

absl::Status RunRank(const RankOptions& rank_options, int64_t steps, const std::string& folder, const char* sharding) {
  // Outlives this function, as a lost group may not end in order.
  INGOT_ASSIGN_OR_RETURN(auto ranks, Ranks::Join(rank_options));
  Ranks* const group = ranks.release();
  TrainerOptions options;
  options.threads = 1;
  options.micro_batch_tokens = 24;
  options.total_steps = steps;
  if (sharding != nullptr) {
    options.sharding = sharding;
    options.micro_batch_tokens = 512;
  }
  const auto config = sharding == nullptr ? TinyConfig() : WideConfig();
  const int64_t before = ResidentMemory();
  INGOT_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(options, config, TinyParameters(config, 2, at::kFloat),
                                                             base::Clock::Real(), group));
  INGOT_RETURN_IF_ERROR(group->leads() ? Lead(*trainer, steps, folder) : trainer->Follow());
  if (sharding == nullptr) return absl::OkStatus();
  const tree::ForestPart part = UncutPart(options.micro_batch_tokens);
  const MemoryNeed whole = PredictMemory(config, 4, PassOptionsOf(options), std::span(&part, 1));
  const MemoryNeed need = OfRank(whole, config, 4, group, options.sharding == "layers");
  std::printf("rank %d held %lld predicted %lld\n", group->rank(), static_cast<long long>(PeakMemory() - before),
              static_cast<long long>(need.total()));
  std::fflush(stdout);
  return absl::OkStatus();
}

int Main(char** argv) {
  RankOptions options;
  options.rank = std::atoi(argv[1]);
  options.size = std::atoi(argv[2]);
  options.port = std::atoi(argv[3]);
  options.deadline = std::chrono::milliseconds(std::atoi(argv[4]));
  options.on_lost = [](const absl::Status& lost) {
    std::fprintf(stderr, "%s\n", std::string(lost.message()).c_str());
    _exit(kLost);
  };
  const absl::Status status = RunRank(options, std::atoll(argv[5]), argv[6], argv[7]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  _exit(status.ok() ? 0 : IsRankLost(status) ? kLost : 1);
}

}  // namespace
}  // namespace ingot::trainer

int main(int argc, char** argv) { return argc == 7 || argc == 8 ? ingot::trainer::Main(argv) : 2; }
