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

// Returns the memory that this rank needs, including any reference policy, without versions that it publishes.
MemoryNeed NeedOf(const TrainerOptions& options, const model::ModelConfig& config, int element_bytes,
                  const PassOptions& pass, std::span<const tree::ForestPart> parts,
                  const std::optional<RankPlace>& place, bool reference, Operators operators = Operators::kNative) {
  const bool by_layer = options.sharding == "layers";
  MemoryNeed need = PredictRankMemory(config, element_bytes, pass, parts, place, by_layer, operators);
  need.copies = reference ? WeightBytes(config, element_bytes) : 0;
  if (options.trust_region.on()) {
    // The masters before the step, divided like the optimizer's state, and the policies before it (fp32, or fp64).
    const int64_t wide = element_bytes == 8 ? 8 : 4, ranks = place.value_or(RankPlace{}).size;
    int64_t rows = 0;  // rows in the batch
    for (const tree::ForestPart& part : parts) rows += part.size();
    const int64_t held = std::min(options.trust_region.MaxRows(config.vocab_size * wide), rows + rows / 4);
    need.copies += model::SpecOf(config).trained_elements() * wide / ranks + held * config.vocab_size * wide;
  }
  return need;
}

// Publishing needs the newest version and memory for the next one. If ranks store versions in parts, each rank has both
// for its part.
int64_t PublishedBytes(int64_t weights, const RankPlace& place, bool in_parts) {
  if (in_parts) return 2 * weights / place.size;
  return place.leads() ? 2 * weights : 0;
}

int64_t LimitBytes(const TrainerOptions& options) { return options.memory_limit_mb << 20; }

// Returns the memory for the model, the optimizer, and one micro-batch.
MemoryNeed FirstNeed(const TrainerOptions& options, const model::ModelConfig& config, at::ScalarType given,
                     const std::optional<RankPlace>& place) {
  const PassOptions pass = PassOptionsOf(options);
  const tree::ForestPart part = UncutPart(pass.part_tokens);
  const auto bytes = static_cast<int>(c10::elementSize(HeldType(options.dtype, given)));
  MemoryNeed need = NeedOf(options, config, bytes, pass, std::span(&part, 1), place, options.needs_reference());
  need.copies += PublishedBytes(WeightBytes(config, bytes), place.value_or(RankPlace{}), /*in_parts=*/false);
  return need;
}

// Implements PredictDeviceMemory for weights that were loaded with the type `given`.
MemoryNeed DeviceNeed(const TrainerOptions& options, const model::ModelConfig& config, at::ScalarType given,
                      const std::optional<RankPlace>& place, int64_t context) {
  const PassOptions pass = PassOptionsOf(options);
  const auto bytes = static_cast<int>(c10::elementSize(HeldType(options.dtype, given)));
  const auto need_of = [&](std::span<const tree::ForestPart> parts) {
    return NeedOf(options, config, bytes, pass, parts, place, options.needs_reference(), Operators::kAten);
  };
  const tree::ForestPart part = UncutPart(pass.part_tokens);
  const MemoryNeed full = need_of(std::span(&part, 1));
  if (context <= pass.part_tokens) return full;
  const MemoryNeed sequence = need_of(tree::CutSequence(context, pass.part_tokens));  // all parts wait for the last
  return sequence.total() > full.total() ? sequence : full;
}

at::ScalarType ConfigType(const model::ModelConfig& config) {
  const std::string& type = config.torch_dtype;
  return type == "float64"    ? at::kDouble
         : type == "bfloat16" ? at::kBFloat16
         : type == "float16"  ? at::kHalf
                              : at::kFloat;
}

// Returns what the trainer certainly allocates on its device.
int64_t LeastOnDevice(const TrainerOptions& options, const MemoryNeed& need) {
  return need.weights + need.optimizer + need.gradients + (options.needs_reference() ? need.weights : 0);
}

absl::Status CheckDevice(const TrainerOptions& options, const MemoryNeed& need, int64_t available, at::Device device,
                         bool log) {
  const PassOptions pass = PassOptionsOf(options);
  const std::string what = absl::StrCat("the trainer on ", device.str());
  INGOT_RETURN_IF_ERROR(CheckMemory(need, LeastOnDevice(options, need), available, what, pass));
  const absl::Status all = CheckMemory(need, need.total(), available, what, pass);
  if (log && !all.ok()) INGOT_LOG(warn, "the run may run out of memory: {}", std::string(all.message()));
  return absl::OkStatus();
}

// Checks this rank.
absl::Status CheckRun(const TrainerOptions& options, const model::ModelConfig& config, at::ScalarType given,
                      at::Device device, const Ranks* ranks, bool log, int64_t held) {
  INGOT_RETURN_IF_ERROR(config.CheckDevice(device.str()));
  const PassOptions pass = PassOptionsOf(options);
  if (!device.is_cpu()) {
    const MemoryNeed need = DeviceNeed(options, config, given, PlaceOf(ranks), /*context=*/0);
    return CheckDevice(options, need, model::AvailableDeviceMemory(device) + held, device, log);
  }
  const MemoryNeed need = FirstNeed(options, config, given, PlaceOf(ranks));
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
  }
  return bytes;
}

MemoryNeed PredictDeviceMemory(const TrainerOptions& options, const model::ModelConfig& config,
                               const std::optional<RankPlace>& place, int64_t context) {
  return DeviceNeed(options, config, ConfigType(config), place, context);
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
  const std::optional<RankPlace> place = PlaceOf(ranks);
  MemoryNeed need = NeedOf(options, policy.config(), bytes, policy.pass(), parts, place,
                           /*reference=*/policy.reference().model() != nullptr);
  need.copies +=
      PublishedBytes(WeightBytes(policy.config(), bytes), place.value_or(RankPlace{}), policy.publishes_in_parts());
  metrics["perf/memory_predicted_bytes"] = static_cast<double>(need.total());
  metrics["perf/memory_bound_bytes"] = static_cast<double>(need.bound());
  const std::string what = absl::StrCat(step, " (", forest.size(), " merged tokens in ", parts.size(), " parts)");
  if (options.memory_limit_mb > 0) return CheckMemory(need, need.total(), LimitBytes(options), what, policy.pass());
  const auto available = [&] { return base::AvailableMemory(RanksHere(ranks)); };
  // The tensor memory cache is available to this step too. It is returned to the system only if the numbers require it.
  if (need.step() > available()) ReleaseTensorMemory();
  return CheckMemory(need, need.step(), available(), what, policy.pass());
}

void ReportDevicePeak(at::Device device, StepMetrics& metrics) {
  if (device.is_cpu()) return;
  metrics["perf/device_memory_peak_bytes"] = static_cast<double>(model::PeakDeviceMemory(device));
}

}  // namespace ingot::trainer
