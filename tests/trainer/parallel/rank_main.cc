// One rank of a trainer as a process, for rank_processes_test.cc:
//
//   rank_main RANK SIZE PORT DEADLINE_MS STEPS FOLDER [SHARDING LAYERS [DTYPE]]
//
// Continues from FOLDER's newest checkpoint, if it has one. Rank 0 prints a line per step and writes its last
// checkpoint to FOLDER. Exits with 0 when all steps are trained, 75 when another rank was lost, 1 on any other error.
//
// The variable INGOT_RANK_STORE names a directory: there each rank stores what it owns of every version. The rank of
// INGOT_RANK_DIES ("RANK VERSION") is killed when it has written its shard of that version.
//
// With LAYERS the model has so many layers of 17 MB (in fp32). Every rank then prints its peak of memory, after the
// start and at the end, each beside the predicted need: "rank R started BYTES of BYTES held BYTES of BYTES".
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "../makers.h"
#include "../tiny_model.h"
#include "base/process_memory.h"
#include "trainer/parallel/rank_memory.h"
#include "trainer/pass/memory.h"
#include "trainer/trainer.h"
#include "weights/stores/directory_store.h"
#include "weights/stores/faulty_store.h"
#include "weights/stores/version_writer.h"

namespace ingot::trainer {
namespace {

constexpr int kLost = 75;
constexpr char kRun[] = "run";

void StoreVersions(Trainer& trainer, int rank) {
  const char* const store = std::getenv("INGOT_RANK_STORE");
  if (store == nullptr) return;
  int mortal = -1, version = 0;
  if (const char* const dies = std::getenv("INGOT_RANK_DIES")) std::sscanf(dies, "%d %d", &mortal, &version);
  const auto mine = std::make_shared<weights::testing::FaultyStore>(*weights::OpenDirectoryStore(store));
  if (rank == mortal) {
    char part[32];
    std::snprintf(part, sizeof(part), "/%010d-", version);
    mine->on_stored = [dies = std::string(part)](const std::string& key, int64_t) {
      if (key.find(dies) != std::string::npos) kill(getpid(), SIGKILL);
    };
  }
  trainer.StoreVersionsIn({.store = mine, .run = kRun, .codec = {}});
}

// Takes the trainer's version, and makes it live in the store if ranks store it.
absl::Status Publish(Trainer& trainer, weights::VersionWriter* writer) {
  if (writer == nullptr) return trainer.TakeSnapshot().status();
  INGOT_ASSIGN_OR_RETURN(const auto version, trainer.StoreVersion(writer->newest(), writer->AnchorDue()));
  return writer->Publish(version->elsewhere(), false).status();
}

absl::Status Lead(Trainer& trainer, int64_t steps, const std::string& folder) {
  std::unique_ptr<weights::VersionWriter> writer;
  if (const char* const store = std::getenv("INGOT_RANK_STORE")) {
    INGOT_ASSIGN_OR_RETURN(writer, weights::VersionWriter::Open(*weights::OpenDirectoryStore(store),
                                                                {.run = kRun, .history = "h", .rank_shards = true},
                                                                [] { return nullptr; }));
    INGOT_RETURN_IF_ERROR(Publish(trainer, writer.get()));
  }
  while (trainer.version() < steps) {
    const int64_t step = trainer.version();
    INGOT_RETURN_IF_ERROR(trainer.TrainStep(RandomBatch(static_cast<uint64_t>(100 + step), 37, step)).status());
    INGOT_RETURN_IF_ERROR(Publish(trainer, writer.get()));
    std::printf("step %lld\n", static_cast<long long>(step));
    std::fflush(stdout);
  }
  INGOT_RETURN_IF_ERROR(trainer.SaveCheckpoint(folder, {}).status());
  return trainer.Dismiss();
}

model::ModelConfig WideConfig(int64_t layers) {
  model::ModelConfig config = TinyConfig();
  config.hidden_size = 512;
  config.intermediate_size = 2048;
  config.num_hidden_layers = layers;
  config.num_attention_heads = config.num_key_value_heads = 8;
  config.head_dim = 64;
  return config;
}

absl::StatusOr<std::unique_ptr<Trainer>> StartOrResume(const TrainerOptions& options, const model::ModelConfig& config,
                                                       const std::string& folder, Ranks* group) {
  const auto latest = LatestCheckpoint(folder);
  if (latest.ok()) return Trainer::Resume(options, latest->path, at::kCPU, base::Clock::Real(), group);
  return Trainer::Create(options, config, TinyParameters(config, 2, at::kFloat), base::Clock::Real(), group);
}

absl::Status RunRank(const RankOptions& rank_options, int64_t steps, const std::string& folder, const char* sharding,
                     int64_t layers, const char* dtype) {
  // Never destroyed: a lost group may not shut down in order.
  INGOT_ASSIGN_OR_RETURN(auto ranks, Ranks::Join(rank_options));
  Ranks* const group = ranks.release();
  TrainerOptions options;
  options.threads = 1;
  options.micro_batch_tokens = 24;
  options.total_steps = steps;
  if (sharding != nullptr) {
    options.sharding = sharding;
    options.micro_batch_tokens = 128;
  }
  if (dtype != nullptr) options.dtype = dtype;
  const auto config = sharding == nullptr ? TinyConfig() : WideConfig(layers);
  const int64_t before = base::ResidentMemory();
  INGOT_ASSIGN_OR_RETURN(const auto trainer, StartOrResume(options, config, folder, group));
  StoreVersions(*trainer, group->rank());
  const int64_t started = base::PeakMemory() - before;
  INGOT_RETURN_IF_ERROR(group->leads() ? Lead(*trainer, steps, folder) : trainer->Follow());
  if (sharding == nullptr) return absl::OkStatus();
  const tree::ForestPart part = UncutPart(options.micro_batch_tokens);
  const int bytes = options.dtype == "bf16" ? 2 : 4;
  const int64_t weights = WeightBytes(config, bytes);
  MemoryNeed need = PredictRankMemory(config, bytes, PassOptionsOf(options), std::span(&part, 1), PlaceOf(group),
                                      options.sharding == "layers");
  if (group->leads()) need.copies = weights;  // the last version, for publishing
  const auto say = [](int64_t bytes) { return static_cast<long long>(bytes); };
  const int64_t to_start = weights + need.optimizer + need.copies;
  std::printf("rank %d started %lld of %lld held %lld of %lld\n", group->rank(), say(started), say(to_start),
              say(base::PeakMemory() - before), say(need.total()));
  std::fflush(stdout);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  RankOptions options;
  options.rank = std::atoi(argv[1]);
  options.size = std::atoi(argv[2]);
  options.port = std::atoi(argv[3]);
  options.deadline = std::chrono::milliseconds(std::atoi(argv[4]));
  options.on_lost = [](const absl::Status& lost) {
    std::fprintf(stderr, "%s\n", std::string(lost.message()).c_str());
    _exit(kLost);
  };
  const bool wide = argc > 7;
  const absl::Status status = RunRank(options, std::atoll(argv[5]), argv[6], wide ? argv[7] : nullptr,
                                      wide ? std::atoll(argv[8]) : 0, argc > 9 ? argv[9] : nullptr);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  _exit(status.ok() ? 0 : IsRankLost(status) ? kLost : 1);
}

}  // namespace
}  // namespace ingot::trainer

int main(int argc, char** argv) { return argc == 7 || argc == 9 || argc == 10 ? ingot::trainer::Main(argc, argv) : 2; }
