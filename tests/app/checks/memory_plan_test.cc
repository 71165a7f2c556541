// The plan of a GPU's memory for published shapes, against sums done by hand.
#include "app/checks/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "app/models/gpu_card.h"
#include "model/adapter_targets.h"

namespace ingot::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Qwen3's config.json. hidden, intermediate, layers, heads; all have 8 KV heads of width 128, a vocabulary of 151,936,
// and a context of 40,960.
model::ModelConfig Qwen3(std::array<int64_t, 4> sizes, bool tied) {
  model::ModelConfig config;
  config.hidden_size = sizes[0];
  config.intermediate_size = sizes[1];
  config.num_hidden_layers = sizes[2];
  config.num_attention_heads = sizes[3];
  config.num_key_value_heads = 8;
  config.head_dim = 128;
  config.vocab_size = 151936;
  config.max_position_embeddings = 40960;
  config.qk_norm = true;
  config.tie_word_embeddings = tied;
  config.torch_dtype = "bfloat16";
  return config;
}

// Parameters, by hand: the embedding (twice if untied), the last norm, and per layer q, k, v, o, gate, up, down, and the
// norms.
//   0.6B  151,936 * 1024 + 1024 + 28 * (2 * 1024 * 2048 + 2 * 1024 * 1024 + 3 * 1024 * 3072 + 2 * 1024 + 2 * 128)
//         = 155,582,464 + 1024 + 28 * 15,730,944 = 596,049,920
//   1.7B  311,164,928 + 2048 + 28 * 50,336,000 = 1,720,574,976
//   4B    388,956,160 + 2560 + 36 * 100,930,816 = 4,022,468,096
//   8B    2 * 622,329,856 + 4096 + 36 * 192,946,432 = 8,190,735,360
const model::ModelConfig k06B = Qwen3({1024, 3072, 28, 16}, true);
const model::ModelConfig k17B = Qwen3({2048, 6144, 28, 16}, true);
const model::ModelConfig k4B = Qwen3({2560, 9728, 36, 32}, true);
const model::ModelConfig k8B = Qwen3({4096, 12288, 36, 32}, false);

GpuWork Work(const model::ModelConfig& shape, int64_t lora_rank = 0) {
  GpuWork work{.shape = shape, .trainer = {}, .rollout = {}};
  if (lora_rank > 0) work.shape.lora = {.rank = lora_rank, .alpha = 32, .targets = model::DefaultTargets(shape)};
  work.trainer.micro_batch_tokens = 2048;
  work.trainer.checkpoint_layers = true;
  work.rollout.kv_cache_tokens = 16384;
  work.context = 2048;
  return work;
}

int64_t RowOf(const MemoryPlan& plan, const std::string& name) {
  for (const MemoryPlan::Row& row : plan.rows) {
    if (row.name.starts_with(name)) return row.bytes;
  }
  return 0;
}

int64_t Gpu(const std::string& name) { return ParseGpus(name)->card_bytes; }

// The position tables: 40,960 positions * 128 * 2 bytes = 10,485,760.
constexpr int64_t kTables = 10485760;

TEST(MemoryPlan, CountsAllWeightsOfAModel) {
  const MemoryPlan plan = PlanMemory(Work(k06B), Gpu("24"));
  EXPECT_EQ(RowOf(plan, "trainer: weights"), 2 * 596049920LL + kTables);
  EXPECT_EQ(RowOf(plan, "trainer: masters and moments"), 12 * 596049920LL + 596049920 / 8)
      << "three times fp32, and a mark";
  // The update holds the gradients in fp32, which is more than a micro-batch needs.
  EXPECT_EQ(RowOf(plan, "trainer: gradients"), 4 * 596049920LL);
  EXPECT_EQ(RowOf(plan, "trainer: workspace"), 0);
  EXPECT_EQ(RowOf(plan, "engine: weights"), 4 * 596049920LL + kTables) << "the version that it serves, and the next";
  // Per token: keys and values, 8 heads of 128, 2 bytes, 28 layers = 114,688 bytes.
  EXPECT_EQ(RowOf(plan, "engine: KV cache"), 16384 * 114688LL);
  // Logits of 64 requests, 64 drafts, and 64 scored rows, 4 times in fp32, and 1024 rows of the last layer.
  EXPECT_EQ(RowOf(plan, "engine: forward pass"), (64 + 64 + 64) * 151936 * 16LL + 1024 * 1024 * 2);
  GpuWork plain = Work(k06B);
  plain.rollout.speculation.drafters.clear();
  EXPECT_EQ(RowOf(PlanMemory(plain, Gpu("24")), "engine: forward pass"), (64 + 64) * 151936 * 16LL + 1024 * 1024 * 2);
  EXPECT_EQ(RowOf(plan, "CUDA context"), 512LL << 20);
  EXPECT_EQ(RowOf(plan, "cuBLAS workspaces"), 64LL << 20);
}

TEST(MemoryPlan, CountsGraphsOfDecodeSteps) {
  GpuWork work = Work(k06B);
  EXPECT_EQ(RowOf(PlanMemory(work, Gpu("24")), "engine: CUDA graphs"), 0);
  work.rollout.cuda_graphs = true;
  work.context = 512;
  // 128 rows: their logits four times in fp32 and hidden states, the sums of 16 heads for one chunk of keys each, and
  // the inputs: 36 bytes a row, then an item, a query, an index, and 33 pages per row.
  const int64_t pass = 128 * 151936 * 16LL + 128 * 1024 * 2, sums = 128 * 16 * 130 * 4,
                inputs = 128 * (36 + 40 + 16 + 4 + 33 * 4);
  EXPECT_EQ(RowOf(PlanMemory(work, Gpu("24")), "engine: CUDA graphs"), pass + sums + inputs);
  work.context = 1025;  // three chunks, rounded up to a power of two
  EXPECT_EQ(RowOf(PlanMemory(work, Gpu("24")), "engine: CUDA graphs"),
            pass + 4 * sums + inputs + 3 * 128 * (40 + 4 + 33 * 4));
  work.rollout.max_running = 500;
  work.rollout.max_batch_tokens = 1000;
  work.rollout.speculation.drafters.clear();
  work.context = 1;
  EXPECT_GT(RowOf(PlanMemory(work, Gpu("24")), "engine: CUDA graphs"), 0) << "at most 256 rows";
}

// Per layer, adapters of rank 16 have 16 * (in + out) parameters for each of the seven products:
//   8B  16 * (2 * 8192 + 2 * 5120 + 3 * 16384) = 1,212,416, in 36 layers 43,646,976
TEST(MemoryPlan, CountsAdapters) {
  const MemoryPlan plan = PlanMemory(Work(k8B, 16), Gpu("80"));
  constexpr int64_t kAdapters = 43646976, kBase = 8190735360;
  EXPECT_EQ(RowOf(plan, "trainer: weights"), 2 * (kBase + kAdapters) + kTables);
  EXPECT_EQ(RowOf(plan, "trainer: masters and moments"), 12 * kAdapters + kAdapters / 8);
  EXPECT_EQ(RowOf(plan, "engine: weights"), 2 * (kBase + 2 * kAdapters) + kTables) << "versions share the base";
  EXPECT_EQ(RowOf(plan, "engine: KV cache"), 16384 * 147456LL);
}

TEST(MemoryPlan, FitsOrIsRefusedOnEachCard) {
  struct Case {
    const char* name;
    GpuWork work;
    std::array<bool, 4> fits;  // on 24, 40, 80, and 141 GiB
  };
  // In GB, without the last twentieth: weights + masters and moments + update (4 bytes a parameter, or the micro-batch)
  // + engine's weights + KV cache + 0.5 for the forward pass + 0.6 for the process.
  //   0.6B           1.2 +  7.2 +  2.4 +  2.4 + 1.9 + 0.8 =  16
  //   1.7B           3.4 + 20.6 +  6.9 +  6.9 + 1.9 + 0.8 =  41
  //   4B, rank 16    8.1 +  0.4 +  1.3 +  8.2 + 2.4 + 0.8 =  21
  //   8B, rank 16   16.5 +  0.5 +  1.5 + 16.6 + 2.4 + 0.8 =  38
  //   8B            16.4 + 98.3 + 32.8 + 32.8 + 2.4 + 0.8 = 184
  const std::vector<Case> cases = {{"0.6B", Work(k06B), {true, true, true, true}},
                                   {"1.7B", Work(k17B), {false, false, true, true}},
                                   {"4B, rank 16", Work(k4B, 16), {true, true, true, true}},
                                   {"8B, rank 16", Work(k8B, 16), {false, true, true, true}},
                                   {"8B", Work(k8B), {false, false, false, false}}};
  constexpr std::array kGpus = {"24", "40", "80", "141"};
  for (const Case& one : cases) {
    for (size_t i = 0; i < kGpus.size(); ++i) {
      const MemoryPlan plan = PlanMemory(one.work, Gpu(kGpus[i]));
      EXPECT_EQ(plan.fits(), one.fits[i]) << one.name << " on " << kGpus[i] << " GiB: " << PlanLine(plan);
    }
  }
}

TEST(MemoryPlan, GivesTheRestToTheKvCache) {
  GpuWork work = Work(k06B);
  const int64_t rest = PlanMemory(work, Gpu("h100")).cache_rest;
  EXPECT_EQ(rest % work.rollout.kv_block_tokens, 0);
  work.rollout.kv_cache_tokens = rest;
  EXPECT_TRUE(PlanMemory(work, Gpu("h100")).fits());
  work.rollout.kv_cache_tokens = rest + 2 * work.rollout.kv_block_tokens;
  const MemoryPlan larger = PlanMemory(work, Gpu("h100"));
  EXPECT_FALSE(larger.fits());
  const absl::Status refused = CheckPlan(work, larger, "the GPU", Overhead::kAll);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("the GPU does not have enough memory for the run"), HasSubstr("KV cache, "),
                    HasSubstr(absl::StrCat("What fits: rollout.kv_cache_tokens=", rest, "; or"))));
}

// cluster.placement shared: the trainer's step and the engine's KV cache are never in memory at the same time.
TEST(MemoryPlan, CountsOnlyTheLargerOfTwoTurns) {
  GpuWork work = Work(k06B);
  for (const int64_t tokens : {16384, 131072}) {  // 1.9 GB, less than the step needs, and 15 GB
    work.rollout.kv_cache_tokens = tokens;
    work.turns = false;
    const MemoryPlan split = PlanMemory(work, Gpu("h100"));
    work.turns = true;
    const MemoryPlan turns = PlanMemory(work, Gpu("h100"));
    const int64_t step =
        RowOf(split, "trainer: gradients") + RowOf(split, "trainer: activations") + RowOf(split, "trainer: workspace");
    const int64_t engine = RowOf(split, "engine: KV cache") + RowOf(split, "engine: forward pass");
    EXPECT_EQ(RowOf(turns, "counted twice"), -std::min(step, engine));
    const double saved = 1.05 * static_cast<double>(std::min(step, engine));  // with the allocator's twentieth
    EXPECT_NEAR(static_cast<double>(split.total() - turns.total()), saved, 2) << tokens;
  }
}

TEST(MemoryPlan, GivesTheStepsMemoryToTheKvCacheInItsTurn) {
  GpuWork work = Work(k06B);
  const int64_t split = PlanMemory(work, Gpu("24")).cache_rest;
  work.turns = true;
  const int64_t rest = PlanMemory(work, Gpu("24")).cache_rest;
  EXPECT_GT(rest, split);
  work.rollout.kv_cache_tokens = rest;
  EXPECT_TRUE(PlanMemory(work, Gpu("24")).fits());
  work.rollout.kv_cache_tokens = rest + 2 * work.rollout.kv_block_tokens;
  EXPECT_FALSE(PlanMemory(work, Gpu("24")).fits());
}

TEST(MemoryPlan, NamesTurnsIfTheyFit) {
  GpuWork work = Work(k06B);
  work.turns = true;
  const int64_t needed = PlanMemory(work, 0).total();
  work.turns = false;
  EXPECT_THAT(WaysToFit(work, needed), ::testing::Not(::testing::Contains("cluster.placement=shared")));
  work.may_take_turns = true;
  EXPECT_THAT(WaysToFit(work, needed), ::testing::Contains("cluster.placement=shared"));
}

TEST(MemoryPlan, NamesTheWaysToTrainAllWeightsOf8B) {
  const GpuWork work = Work(k8B);
  const MemoryPlan plan = PlanMemory(work, Gpu("h100"));
  const absl::Status refused = CheckPlan(work, plan, "the GPU", Overhead::kAll);
  EXPECT_THAT(
      std::string(refused.message()),
      AllOf(HasSubstr(" GB of 84.7 GB (trainer: weights 16.4 GB; trainer: masters and moments 99.3 GB;"),
            HasSubstr(
                "What fits: trainer.lora.rank=16; or cluster.trainer_ranks=4 and trainer.sharding=layers, a GPU for "
                "each rank, and engines on other GPUs")));
  EXPECT_TRUE(WaysToFit(work, int64_t{4} << 30).empty());
  EXPECT_THAT(std::string(CheckPlan(work, PlanMemory(work, 1 << 20), "the GPU", Overhead::kAll).message()),
              AllOf(HasSubstr("rollout.kv_cache_tokens"), HasSubstr("trainer.micro_batch_tokens")));
}

// The KV cache must hold one sequence.
TEST(MemoryPlan, NamesAShorterContextIfOneSequenceDoesNotFit) {
  GpuWork work = Work(k06B);
  work.rank = -1;
  work.context = 40960;
  work.rollout.kv_cache_tokens = 65536;
  const std::vector<std::string> ways = WaysToFit(work, int64_t{6} << 30);
  ASSERT_EQ(ways.size(), 1u);
  // 6.4 GB less 2.4 of weights, 0.5 of logits, 0.6 of the process, and a twentieth: 23,000 tokens of 114,688 bytes.
  EXPECT_THAT(ways[0], HasSubstr("rollout.context_length=20480 with rollout.kv_cache_tokens=2"));
  EXPECT_THAT(WaysToFit(work, int64_t{9} << 30)[0], StartsWith("rollout.kv_cache_tokens=")) << "all of the context";
}

TEST(MemoryPlan, ShrinksWithTheSettingsThatShrinkIt) {
  const auto total = [](const GpuWork& work) { return PlanMemory(work, 0).total(); };
  GpuWork work = Work(k8B, 16);
  const int64_t checkpointed = total(work);
  work.trainer.checkpoint_layers = false;
  EXPECT_GT(total(work), checkpointed + (int64_t{10} << 30));
  work.trainer.checkpoint_layers = true;
  work.context = 32768;  // 16 parts that wait for the last one
  EXPECT_GT(total(work), checkpointed + (int64_t{5} << 30));
  work.context = 2048;
  work.engines = 0;
  const int64_t trainer = total(work);
  EXPECT_LT(trainer, checkpointed - (int64_t{16} << 30));
  work.engines = 1;
  work.rank = -1;
  EXPECT_LT(total(work), checkpointed - (int64_t{16} << 30));
  GpuWork ranks = Work(k8B);
  const int64_t one = total(ranks);
  ranks.ranks = 4;
  ranks.trainer.sharding = "layers";
  EXPECT_LT(total(ranks), one * 11 / 20);  // a rank also holds the gradients that it gathers
}

TEST(GpuCard, ReadsNamesAndSizes) {
  EXPECT_EQ(ParseGpus("h100")->card_bytes, (81559LL - 768) << 20);
  EXPECT_EQ(ParseGpus("H100")->count, 0);
  EXPECT_EQ(ParseGpus("8xa100-40")->count, 8);
  EXPECT_EQ(ParseGpus("8xa100-40")->card_bytes, (40960LL - 768) << 20);
  EXPECT_EQ(ParseGpus("24")->card_bytes, (24LL * 1024 - 768) << 20);
  EXPECT_EQ(ParseGpus("2x24")->card, "24 GiB");
  for (const char* wrong : {"", "h101", "0xh100", "-1xh100", "x", "8x", "0", "-24", "1e3", "99999999999", "24GB"}) {
    const absl::Status refused = ParseGpus(wrong).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("h100, h200"));
  }
}

}  // namespace
}  // namespace ingot::app
