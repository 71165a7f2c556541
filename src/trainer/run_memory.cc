#include "trainer/run_memory.h"

#include <algorithm>
#include <span>

#include "base/log.h"
#include "base/process_memory.h"
#include "model/device_memory.h"
#include "model/layer_spec.h"
#include "trainer/parallel/rank_memory.h"
#include "trainer/pass/memory.h"
#include "trainer/pass/tensor_memory.h"
#include "trainer/policy/owned_model.h"
#include "trainer/torch_edge.h"
#include "tree/cut.h"

namespace ingot::trainer {
namespace {

// Returns the memory that this rank needs, including any reference policy. `in_parts` = ranks store versions in parts.
MemoryNeed NeedOf(const TrainerOptions& options, const model::ModelConfig& config, int element_bytes,
                  const PassOptions& pass, std::span<const tree::ForestPart> parts,
                  const std::optional<RankPlace>& place, bool reference, bool in_parts) {
  const bool by_layer = options.sharding == "layers";
  MemoryNeed need = PredictRankMemory(config, element_bytes, pass, parts, place, by_layer);
  const int ranks = place.value_or(RankPlace{}).size;
  const bool publishes = place.value_or(RankPlace{}).leads();
  const int64_t weights = WeightBytes(config, element_bytes);
  // Publishing needs the newest version and memory for the next one. If ranks store versions, each rank has both for
  // its part.
  need.copies = reference ? weights : 0;
  if (in_parts) {
    need.copies += 2 * weights / ranks;
  } else if (publishes) {
    need.copies += 2 * weights;
  }
  if (options.trust_region.on()) {
    // The masters before the step, divided like the optimizer's state, and the policies before it (fp32, or fp64).
    const int64_t wide = element_bytes == 8 ? 8 : 4;
    int64_t rows = 0;  // rows in the batch
    for (const tree::ForestPart& part : parts) rows += part.size();
    const int64_t held = std::min(options.trust_region.MaxRows(config.vocab_size * wide), rows + rows / 4);
    need.copies += model::SpecOf(config).trained_elements() * wide / ranks + held * config.vocab_size * wide;
  }
  return need;
}

int64_t LimitBytes(const TrainerOptions& options) { return options.memory_limit_mb << 20; }

// Returns the memory for the model, the optimizer, and one micro-batch.
MemoryNeed FirstNeed(const TrainerOptions& options, const model::ModelConfig& config, at::ScalarType given,
                     const std::optional<RankPlace>& place) {
  const PassOptions pass = PassOptionsOf(options);
  const tree::ForestPart part = UncutPart(pass.part_tokens);
  const auto bytes = static_cast<int>(c10::elementSize(HeldType(options.dtype, given)));
  return NeedOf(options, config, bytes, pass, std::span(&part, 1), place, /*reference=*/options.needs_reference(),
                /*in_parts=*/false);
}

at::ScalarType ConfigType(const model::ModelConfig& config) {
  const std::string& type = config.torch_dtype;
  return type == "float64"    ? at::kDouble
         : type == "bfloat16" ? at::kBFloat16
         : type == "float16"  ? at::kHalf
                              : at::kFloat;
}

// Returns what the trainer certainly allocates on its device. Published versions are on the host.
int64_t LeastOnDevice(const TrainerOptions& options, const MemoryNeed& need) {
  return need.weights + need.optimizer + need.gradients + (options.needs_reference() ? need.weights : 0);
}

absl::Status CheckDevice(const TrainerOptions& options, const MemoryNeed& need, int64_t available, at::Device device,
                         bool log) {
  const PassOptions pass = PassOptionsOf(options);
  const std::string what = absl::StrCat("the trainer on ", device.str());
  const int64_t least = LeastOnDevice(options, need), likely = least + need.waiting + need.running + need.transient;
  INGOT_RETURN_IF_ERROR(CheckMemory(need, least, available, what, pass));
  const absl::Status all = CheckMemory(need, likely, available, what, pass);
  if (log && !all.ok()) INGOT_LOG(warn, "the run may run out of memory: {}", std::string(all.message()));
  return absl::OkStatus();
}

// Checks this rank.
absl::Status CheckRun(const TrainerOptions& options, const model::ModelConfig& config, at::ScalarType given,
                      at::Device device, const Ranks* ranks, bool log, int64_t held) {
  INGOT_RETURN_IF_ERROR(config.CheckDevice(device.str()));
  const PassOptions pass = PassOptionsOf(options);
  const MemoryNeed need = FirstNeed(options, config, given, PlaceOf(ranks));
  if (!device.is_cpu()) {
    return CheckDevice(options, need, model::AvailableDeviceMemory(device) + held, device, log);
  }
  const int64_t available =
      options.memory_limit_mb > 0 ? LimitBytes(options) : base::AvailableMemory(RanksHere(ranks)) + held;
  if (log) INGOT_LOG(info, "a micro-batch of {} tokens needs {}", pass.part_tokens, need.Describe());
  return CheckMemory(need, need.total(), available, "the run", pass);
}

}  // namespace

TrainerBytes LeastBytes(const TrainerOptions& options, const model::ModelConfig& config, int ranks) {
  TrainerBytes bytes;
  bytes.version = WeightBytes(config, static_cast<int>(c10::elementSize(HeldType(options.dtype, ConfigType(config)))));
  for (int rank = 0; rank < ranks; ++rank) {
    const std::optional<RankPlace> place = ranks > 1 ? std::optional(RankPlace{rank, ranks}) : std::nullopt;
    const MemoryNeed need = FirstNeed(options, config, ConfigType(config), place);
    bytes.ranks.push_back(need.total());
    bytes.on_devices.push_back(LeastOnDevice(options, need));
  }
  return bytes;
}

absl::Status CheckFits(const TrainerOptions& options, const model::ModelConfig& config, at::Device device,
                       Ranks* ranks) {
  return AtTorchEdge("trainer", [&] {
    return Agree(ranks, CheckRun(options, config, ConfigType(config), device, ranks, /*log=*/false, /*held=*/0));
  });
}

absl::Status CheckRunFits(const TrainerOptions& options, const model::ModelConfig& config, at::Device device,
                          Ranks* ranks, std::optional<at::ScalarType> given, int64_t held) {
  return Agree(ranks, CheckRun(options, config, given.value_or(ConfigType(config)), device, ranks, /*log=*/true, held));
}

absl::Status CheckStepFits(const TrainerOptions& options, const Policy& policy, const Ranks* ranks,
                           const tree::PackedForest& forest, const std::string& step, StepMetrics& metrics) {
  if (!policy.device().is_cpu()) return absl::OkStatus();
  const auto parts = tree::CutForest(forest, policy.pass().part_tokens);
  const auto bytes = static_cast<int>(policy.any().element_size());
  const MemoryNeed need = NeedOf(options, policy.config(), bytes, policy.pass(), parts, PlaceOf(ranks),
                                 /*reference=*/policy.reference().model() != nullptr, policy.publishes_in_parts());
  metrics["perf/memory_predicted_bytes"] = static_cast<double>(need.total());
  metrics["perf/memory_bound_bytes"] = static_cast<double>(need.bound());
  const std::string what = absl::StrCat(step, " (", forest.size(), " merged tokens in ", parts.size(), " parts)");
  if (options.memory_limit_mb > 0) return CheckMemory(need, need.total(), LimitBytes(options), what, policy.pass());
  const auto available = [&] { return base::AvailableMemory(RanksHere(ranks)); };
  // The tensor memory cache is available to this step too. It is returned to the system only if the numbers require it.
  if (need.step() > available()) ReleaseTensorMemory();
  return CheckMemory(need, need.step(), available(), what, policy.pass());
}

}  // namespace ingot::trainer
