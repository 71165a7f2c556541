#include "app/checks/machine_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "trainer/run_memory.h"

namespace ingot::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

model::ModelConfig Shape() {
  model::ModelConfig shape;
  shape.vocab_size = 256;
  shape.hidden_size = 64;
  shape.intermediate_size = 128;
  shape.num_hidden_layers = 2;
  shape.num_attention_heads = 4;
  shape.num_key_value_heads = 2;
  shape.head_dim = 16;
  return shape;
}

RunConfig Config(int engines, int ranks) {
  RunConfig config;
  config.tasks = "tasks.jsonl";
  config.rollout.kv_cache_tokens = 1000;
  config.cluster.rollout_engines = engines;
  config.cluster.trainer_ranks = ranks;
  return config;
}

TEST(MachineMemory, AddsUpTheEnginesAndRanksOfAMachine) {
  const RunConfig config = Config(3, 2);
  const std::vector<RoleProcess> roles = AllRoles(config);
  const MachineNeed need = NeedOfRoles(config, Shape(), roles);
  EXPECT_EQ(need.engines, 3);
  EXPECT_EQ(need.ranks, 2);
  EXPECT_EQ(need.cache, 2 * 2 * 2 * 16 * 4 * 1000);  // layers, keys and values, heads, width, bytes, tokens
  EXPECT_EQ(need.total(), 3 * (need.cache + need.versions) + need.trainer);
  const std::vector<RoleProcess> one = {{"trainer", 0}, {"rollout", 0}, {"gateway", 0}};
  const MachineNeed part = NeedOfRoles(config, Shape(), one);
  EXPECT_EQ(part.engines, 1);
  EXPECT_EQ(part.ranks, 1);
  EXPECT_LT(part.trainer, need.trainer);
}

TEST(MachineMemory, CountsTheVersionsThatPinnedEpisodesUse) {
  RunConfig config = Config(1, 1);
  const int64_t follow = NeedOfRoles(config, Shape(), AllRoles(config)).versions;
  config.rollout.episode_version = rollout::EpisodeVersion::kPinned;
  config.rollout.episode_versions = 3;
  EXPECT_EQ(NeedOfRoles(config, Shape(), AllRoles(config)).versions, follow / 2 * (2 + 3));
}

TEST(MachineMemory, CountsTheKvThatEnginesKeepForOthers) {
  RunConfig config = Config(3, 1);
  const int64_t without = NeedOfRoles(config, Shape(), AllRoles(config)).total();
  config.rollout.kv_store.path = "memory://";
  config.rollout.router.prefill_engines = 2;
  const MachineNeed need = NeedOfRoles(config, Shape(), AllRoles(config));
  EXPECT_EQ(need.total(), without + 2 * need.cache) << "at most as large as a KV cache";
  config.rollout.kv_store.max_bytes = 100;
  EXPECT_EQ(NeedOfRoles(config, Shape(), AllRoles(config)).total(), without + 200);
  EXPECT_THAT(std::string(CheckMachineHolds(need, without, config, "here").message()),
              HasSubstr("KV for other engines"));
}

// Each engine fits alone. The two do not.
TEST(MachineMemory, RejectsWhatDoesNotFitTogetherWithTheNumbers) {
  const RunConfig config = Config(2, 1);
  const MachineNeed need = NeedOfRoles(config, Shape(), AllRoles(config));
  EXPECT_TRUE(CheckMachineHolds(need, need.total(), config, "node engines-1").ok());
  const int64_t available = need.total() - need.cache;
  const absl::Status rejected = CheckMachineHolds(need, available, config, "node engines-1");
  EXPECT_EQ(rejected.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      std::string(rejected.message()),
      AllOf(HasSubstr("node engines-1 does not have enough memory"), HasSubstr("2 engines of"), HasSubstr("1 rank "),
            HasSubstr("rollout.kv_cache_tokens (1000; 500 would fit)"), HasSubstr("trainer.micro_batch_tokens")));
}

// Two ranks and three engines on three GPUs: GPU 0 has rank 0 and engine 1, GPU 1 has rank 1 and engine 2, and GPU 2 has
// engine 0 alone.
TEST(MachineMemory, AddsUpTheRolesThatShareAGpu) {
  const RunConfig config = Config(3, 2);
  const std::vector<RoleProcess> roles = AllRoles(config);
  const auto planned = [&](std::vector<RoleProcess> processes) {
    return PlanMemory(GpuWorkOf(config, Shape(), processes, /*one_process=*/false), 0).total();
  };
  const int64_t engine = planned({{"rollout", 0}});
  std::vector<int64_t> gpus = {planned({{"trainer", 0}, {"rollout", 1}}), planned({{"trainer", 1}, {"rollout", 2}}),
                               engine};
  EXPECT_GT(gpus[0], engine);
  const auto check = [&](const RunConfig& run) {
    const auto available = [&](int gpu) { return std::optional(gpus[static_cast<size_t>(gpu)]); };
    return CheckDevicesHold(run, Shape(), roles, 3, available, "this machine");
  };
  EXPECT_EQ(check(config), absl::OkStatus());
  for (size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    --gpus[gpu];
    const absl::Status rejected = check(config);
    ++gpus[gpu];
    EXPECT_EQ(rejected.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(rejected.message()),
                AllOf(HasSubstr(absl::StrCat("GPU ", gpu, " of this machine does not have enough memory")),
                      HasSubstr("rollout.kv_cache_tokens")));
  }
  gpus = {planned({{"trainer", 0}}), planned({{"trainer", 1}}), 0};
  RunConfig served = config;
  served.engine = engines::EngineKind::kVllm;
  EXPECT_EQ(check(served), absl::OkStatus()) << "the server's memory is its own";
}

TEST(MachineMemory, RejectsMoreRanksThanAMachineHasGpus) {
  GpuMachine gpus{.card = "h100", .card_bytes = int64_t{80} << 30, .count = 2};
  const auto plan = [&](const RunConfig& config) { return PlanOnGpus(config, Shape(), gpus, /*one_process=*/false); };
  EXPECT_TRUE(plan(Config(1, 2)).ok()) << plan(Config(1, 2)).status();
  const absl::Status rejected = plan(Config(1, 3)).status();
  EXPECT_EQ(rejected.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(rejected.message()), HasSubstr("puts 3 ranks on a machine with 2 GPUs (h100)"));
  gpus.count = 0;
  EXPECT_TRUE(plan(Config(1, 3)).ok()) << "one for each";
}

// A rank's optimizer has the state of the parameters that it owns, and no two ranks own equally many.
TEST(MachineMemory, PlansTheLargestOfTheOtherRanks) {
  const GpuMachine gpus{.card = "h100", .card_bytes = int64_t{80} << 30, .count = 8};
  for (const int ranks : {3, 4, 5, 6, 7}) {
    const RunConfig config = Config(1, ranks);
    int64_t largest = 0, second = 0;
    for (int rank = 1; rank < ranks; ++rank) {
      const std::vector<RoleProcess> processes = {{"trainer", rank}};
      const GpuWork work = GpuWorkOf(config, Shape(), processes, /*one_process=*/false);
      const int64_t total = PlanMemory(work, gpus.card_bytes).total();
      largest = std::max(largest, total);
      if (rank == 1) second = total;
    }
    const auto plans = PlanOnGpus(config, Shape(), gpus, /*one_process=*/false);
    ASSERT_TRUE(plans.ok()) << plans.status();
    EXPECT_EQ(plans->at(1).what, "another rank of the trainer");
    EXPECT_EQ(plans->at(1).plan.total(), largest) << ranks << " ranks, of which rank 1 needs " << second;
  }
}

TEST(MachineMemory, NotesThatProcessesShareAGpu) {
  const GpuMachine gpus{.card = "h100", .card_bytes = int64_t{80} << 30, .count = 8};
  EXPECT_EQ(NoteOfSharedGpus(Config(4, 4), gpus), "");
  EXPECT_THAT(NoteOfSharedGpus(Config(6, 4), gpus), HasSubstr("10 trainer ranks and engines have only 8 GPUs"));
}

TEST(MachineMemory, RejectsAModelWithoutKernelsBeforeItAsksTheDevice) {
  model::ModelConfig shape = Shape();
  shape.recurrent.layers = {true, false};
  DeviceChoice device;
  device.torch_name = "cuda:0";
  EXPECT_EQ(PlanOnDevice(Config(1, 1), shape, device).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace ingot::app
