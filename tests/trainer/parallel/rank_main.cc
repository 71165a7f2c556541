// One rank of a trainer as a process, for rank_processes_test.cc: rank_main RANK SIZE PORT DEADLINE_MS STEPS FOLDER.
// Rank 0 prints a line per step and writes its last checkpoint to FOLDER. Exits with 0 when all steps are trained, 75
// when another rank was lost, 1 on any other error.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "../makers.h"
#include "../tiny_model.h"
#include "trainer/trainer.h"

namespace ingot::trainer {
namespace {

constexpr int kLost = 75;

absl::Status Lead(Trainer& trainer, int64_t steps, const std::string& folder) {
  while (trainer.version() < steps) {
    const int64_t step = trainer.version();
    INGOT_RETURN_IF_ERROR(trainer.TrainStep(RandomBatch(static_cast<uint64_t>(100 + step), 37, step)).status());
    std::printf("step %lld\n", static_cast<long long>(step));
    std::fflush(stdout);
  }
  INGOT_RETURN_IF_ERROR(trainer.SaveCheckpoint(folder, {}).status());
  return trainer.Dismiss();
}

absl::Status RunRank(const RankOptions& rank_options, int64_t steps, const std::string& folder) {
  // Outlives this function, as a lost group may not end in order.
  INGOT_ASSIGN_OR_RETURN(auto ranks, Ranks::Join(rank_options));
  Ranks* const group = ranks.release();
  TrainerOptions options;
  options.threads = 1;
  options.micro_batch_tokens = 24;
  options.total_steps = steps;
  const auto config = TinyConfig();
  INGOT_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(options, config, TinyParameters(config, 2, at::kFloat),
                                                             base::Clock::Real(), group));
  return group->leads() ? Lead(*trainer, steps, folder) : trainer->Follow();
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
  const absl::Status status = RunRank(options, std::atoll(argv[5]), argv[6]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  _exit(status.ok() ? 0 : IsRankLost(status) ? kLost : 1);
}

}  // namespace
}  // namespace ingot::trainer

int main(int argc, char** argv) { return argc == 7 ? ingot::trainer::Main(argv) : 2; }
