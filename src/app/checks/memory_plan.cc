#include "app/checks/memory_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "model/adapter_targets.h"
#include "model/layer_spec.h"
#include "rollout/engine/engine_memory.h"
#include "trainer/pass/memory.h"
#include "trainer/policy/owned_model.h"
#include "trainer/run_memory.h"

namespace ingot::app {
namespace {

// A CUDA context with the kernels that torch loads: "around 400MB" (PyTorch developers, pytorch issue 109888).
constexpr int64_t kContextBytes = int64_t{512} << 20;
// torch's workspace for each thread that calls cuBLAS, on Hopper; 8 MiB before (parseChosenWorkspaceSize in torch 2.11's
// aten/src/ATen/cuda/CublasHandlePool.cpp).
constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;
// torch's caching allocator takes segments of 2 MiB, 20 MiB, or a multiple of 2 MiB (c10/core/AllocatorConfig.h). The
// share, which stays unused between tensors of different sizes, is an estimate that no run has measured.
constexpr int64_t kSegmentBytes = int64_t{44} << 20;
constexpr double kUnusedShare = 0.05;

std::string Gigabytes(int64_t bytes) { return absl::StrFormat("%.3g GB", static_cast<double>(bytes) * 1e-9); }

int64_t Unused(int64_t bytes) {
  return kSegmentBytes + static_cast<int64_t>(kUnusedShare * static_cast<double>(bytes));
}

// Returns the name of the weights' type, as in config.json.
std::string HeldTypeName(const GpuWork& work) {
  if (work.trainer.dtype == "model") return work.shape.torch_dtype;
  return work.trainer.dtype == "bf16" ? "bfloat16" : "float32";
}

int ElementBytes(const GpuWork& work) {
  const std::string type = HeldTypeName(work);
  return type == "bfloat16" || type == "float16" ? 2 : 4;
}

// fp16 models attend in fp32 (rollout/engine/torch_runner.h).
int64_t CacheBytesOf(const GpuWork& work) {
  return work.engines * rollout::CacheBytes(work.shape, work.rollout, HeldTypeName(work) == "bfloat16" ? 2 : 4);
}

// The rows of a part of the run, and how much of them it uses only in its turn.
struct PartRows {
  std::vector<MemoryPlan::Row> rows;
  int64_t in_turn = 0;
};

PartRows TrainerRows(const GpuWork& work) {
  if (work.rank < 0) return {};
  std::optional<trainer::RankPlace> place;
  if (work.ranks > 1) place = trainer::RankPlace{work.rank, work.ranks};
  const trainer::MemoryNeed need = trainer::PredictDeviceMemory(work.trainer, work.shape, place, work.context);
  const int64_t ranks = work.ranks_here;
  return {{{"trainer: weights", ranks * need.weights},
           {"trainer: masters and moments", ranks * need.optimizer},
           {"trainer: reference policy and trust region", ranks * need.copies},
           {"trainer: gradients", ranks * need.gradients},
           {"trainer: activations", ranks * (need.waiting + need.running)},
           {"trainer: workspace", ranks * need.transient}},
          ranks * need.step()};
}

PartRows EngineRows(const GpuWork& work) {
  if (work.engines == 0) return {};
  const int element = ElementBytes(work);
  const model::ModelSpec spec = model::SpecOf(work.shape);
  // Versions share the tensors that no step changes (rollout/engine/torch_runner.cc).
  const int64_t later = spec.trained_elements() * element * (work.versions - 1);
  const int64_t weights = trainer::WeightBytes(work.shape, element) + later;
  const std::string what = work.engines > 1 ? absl::StrCat(work.engines, " engines: ") : "engine: ";
  const int64_t cache = CacheBytesOf(work);
  const int64_t pass = work.engines * rollout::ForwardBytes(work.shape, work.rollout, element);
  const int64_t graphs = work.engines * rollout::GraphBytes(work.shape, work.rollout, element, work.context);
  return {{{absl::StrCat(what, "weights, ", work.versions, " versions"), work.engines * weights},
           {absl::StrCat(what, "KV cache, ", work.rollout.kv_cache_tokens, " tokens"), cache},
           {absl::StrCat(what, "forward pass"), pass},
           {absl::StrCat(what, "CUDA graphs of decode steps"), graphs}},
          cache + pass + graphs};
}

void Append(std::vector<MemoryPlan::Row> more, std::vector<MemoryPlan::Row>& rows) {
  for (MemoryPlan::Row& row : more) {
    if (row.bytes > 0) rows.push_back(std::move(row));
  }
}

// Returns the size of the KV cache that would fit into `available`.
int64_t CacheThatFits(const GpuWork& work, int64_t available, Overhead overhead) {
  GpuWork least = work;
  least.rollout.kv_cache_tokens = 0;
  const int64_t others = PlanMemory(least, available, overhead).total();
  const int64_t block = work.rollout.kv_block_tokens;
  least.rollout.kv_cache_tokens = block;
  const int64_t of_block = CacheBytesOf(least);
  if (others > available || of_block == 0) return 0;
  least.rollout.kv_cache_tokens = 0;
  const int64_t step = work.turns ? TrainerRows(least).in_turn - EngineRows(least).in_turn : 0;  // memory of the step
  const auto rest = static_cast<int64_t>(static_cast<double>(available - others) / (1 + kUnusedShare));
  return (std::max<int64_t>(0, step) + rest) / of_block * block;
}

// A change of the work, as its settings.
struct Change {
  std::string settings;
  GpuWork work;
};

Change With(const Change& change, const std::string& setting, GpuWork work) {
  return {change.settings.empty() ? setting : absl::StrCat(change.settings, " with ", setting), std::move(work)};
}

// The functions below return the change with one more setting, or nullopt if the setting would change nothing.

// The largest KV cache that fits, if it holds one sequence.
std::optional<Change> SmallerCache(const Change& change, int64_t available, Overhead overhead) {
  if (change.work.engines == 0) return std::nullopt;
  const int64_t rest = CacheThatFits(change.work, available, overhead);
  if (rest < std::max<int64_t>(change.work.context, change.work.rollout.kv_block_tokens)) return std::nullopt;
  if (rest >= change.work.rollout.kv_cache_tokens) return std::nullopt;
  GpuWork work = change.work;
  work.rollout.kv_cache_tokens = rest;
  return With(change, absl::StrCat("rollout.kv_cache_tokens=", rest), std::move(work));
}

std::optional<Change> Turns(const Change& change) {
  if (change.work.turns || !change.work.may_take_turns) return std::nullopt;
  GpuWork work = change.work;
  work.turns = true;
  return With(change, "cluster.placement=shared", std::move(work));
}

std::optional<Change> Checkpointed(const Change& change) {
  if (change.work.rank < 0 || change.work.trainer.checkpoint_layers) return std::nullopt;
  GpuWork work = change.work;
  work.trainer.checkpoint_layers = true;
  return With(change, "trainer.checkpoint_layers=true", std::move(work));
}

std::optional<Change> MicroBatch(const Change& change, int64_t tokens) {
  if (change.work.rank < 0 || tokens >= change.work.trainer.micro_batch_tokens) return std::nullopt;
  GpuWork work = change.work;
  work.trainer.micro_batch_tokens = tokens;
  return With(change, absl::StrCat("trainer.micro_batch_tokens=", tokens), std::move(work));
}

std::optional<Change> Context(const Change& change, int64_t tokens) {
  GpuWork work = change.work;
  work.context = tokens;
  work.rollout.context_length = static_cast<int32_t>(tokens);
  return With(change, absl::StrCat("rollout.context_length=", tokens), std::move(work));
}

std::optional<Change> Adapted(const Change& change) {
  if (change.work.rank < 0 || change.work.shape.lora.rank > 0) return std::nullopt;
  GpuWork work = change.work;
  work.shape.lora = {.rank = 16, .alpha = 32, .targets = model::DefaultTargets(work.shape)};
  return With(change, "trainer.lora.rank=16", std::move(work));
}

std::optional<Change> MoreRanks(const Change& change, int ranks) {
  if (change.work.rank < 0 || ranks <= change.work.ranks) return std::nullopt;
  GpuWork work = change.work;
  work.ranks = ranks;
  work.rank = 0;
  work.ranks_here = work.processes = 1;
  work.engines = 0;
  work.turns = work.may_take_turns = false;
  work.trainer.sharding = "layers";
  const std::string engines = change.work.engines > 0 ? ", and engines on other GPUs" : "";
  return With(
      change,
      absl::StrCat("cluster.trainer_ranks=", ranks, " and trainer.sharding=layers, a GPU for each rank", engines),
      std::move(work));
}

// Finds settings that fit, from small changes to large ones.
class Search {
 public:
  Search(int64_t available, Overhead overhead) : available_(available), overhead_(overhead) {}

  std::vector<std::string> Run(const GpuWork& work) {
    const Change none{"", work};
    Try(SmallerCache(none, available_, overhead_));
    TryOrShrinkCache(Turns(none));
    TryOrShrinkCache(Checkpointed(none));
    TryMicroBatches(none);
    if (found_.empty()) TryMicroBatches(Checkpointed(none).value_or(none));
    if (found_.empty()) TryContexts(none);
    TryLarger(Adapted(none));
    for (const int ranks : {2, 4, 8, 16, 32, 64}) {
      if (TryLarger(MoreRanks(none, ranks))) break;
    }
    return std::move(found_);
  }

 private:
  bool Try(const std::optional<Change>& change) {
    if (!change.has_value() || !PlanMemory(change->work, available_, overhead_).fits()) return false;
    found_.push_back(change->settings);
    return true;
  }

  bool TryOrShrinkCache(const std::optional<Change>& change) {
    if (!change.has_value()) return false;
    return Try(change) || Try(SmallerCache(*change, available_, overhead_));
  }

  bool TryMicroBatches(const Change& change) {
    const int64_t least = std::max<int64_t>(256, change.work.context / 256);  // planning time grows with the parts
    for (int64_t tokens = change.work.trainer.micro_batch_tokens / 2; tokens >= least; tokens /= 2) {
      if (TryOrShrinkCache(MicroBatch(change, tokens))) return true;
    }
    return false;
  }

  // Half of the context, a quarter, and so on. Also with recomputed layers.
  bool TryContexts(const Change& change) {
    constexpr int64_t kLeast = 1024;
    for (int64_t tokens = change.work.context / 2; tokens >= kLeast; tokens /= 2) {
      const std::optional<Change> shorter = Context(change, tokens);
      if (TryOrShrinkCache(shorter) || TryOrShrinkCache(Checkpointed(*shorter))) return true;
    }
    return false;
  }

  // Also with recomputed layers and smaller micro-batches.
  bool TryLarger(const std::optional<Change>& change) {
    if (!change.has_value()) return false;
    if (TryOrShrinkCache(change)) return true;
    const Change checkpointed = Checkpointed(*change).value_or(*change);
    return TryOrShrinkCache(checkpointed) || TryMicroBatches(checkpointed);
  }

  const int64_t available_;
  const Overhead overhead_;
  std::vector<std::string> found_;
};

std::string RowList(const MemoryPlan& plan) {
  return absl::StrJoin(plan.rows, "; ", [](std::string* out, const MemoryPlan::Row& row) {
    absl::StrAppend(out, row.name, " ", Gigabytes(row.bytes));
  });
}

}  // namespace

int64_t MemoryPlan::total() const {
  int64_t bytes = 0;
  for (const Row& row : rows) bytes += row.bytes;
  return bytes;
}

MemoryPlan PlanMemory(const GpuWork& work, int64_t available, Overhead overhead) {
  MemoryPlan plan;
  plan.available = available;
  PartRows trainer = TrainerRows(work), engines = EngineRows(work);
  Append(std::move(trainer.rows), plan.rows);
  Append(std::move(engines.rows), plan.rows);
  const int64_t twice = work.turns ? std::min(trainer.in_turn, engines.in_turn) : 0;
  if (twice > 0) plan.rows.push_back({"counted twice, because both take turns", -twice});
  const int threads = (work.rank < 0 ? 0 : work.ranks_here) + work.engines;
  const int64_t unused = Unused(plan.total());
  Append({{"CUDA context", overhead == Overhead::kAll ? work.processes * kContextBytes : 0},
          {"cuBLAS workspaces", threads * kWorkspaceBytes},
          {"unused in the allocator", unused}},
         plan.rows);
  plan.cache_tokens = work.rollout.kv_cache_tokens;
  // With a cache of 0 tokens, CacheThatFits asks for this plan.
  if (work.engines > 0 && plan.cache_tokens > 0) plan.cache_rest = CacheThatFits(work, available, overhead);
  return plan;
}

std::vector<std::string> WaysToFit(const GpuWork& work, int64_t available, Overhead overhead) {
  return Search(available, overhead).Run(work);
}

absl::Status CheckPlan(const GpuWork& work, const MemoryPlan& plan, const std::string& gpu, Overhead overhead) {
  if (plan.fits()) return absl::OkStatus();
  const std::vector<std::string> ways = WaysToFit(work, plan.available, overhead);
  const std::string advice =
      ways.empty() ? "No smaller rollout.kv_cache_tokens or trainer.micro_batch_tokens fits: free the GPU's memory, "
                     "choose a smaller model, or use a larger GPU"
                   : absl::StrCat("What fits: ", absl::StrJoin(ways, "; or "));
  return absl::ResourceExhaustedError(absl::StrCat(gpu, " does not have enough memory for the run: the plan needs ",
                                                   Gigabytes(plan.total()), " of ", Gigabytes(plan.available), " (",
                                                   RowList(plan), "). ", advice));
}

std::string PlanLine(const MemoryPlan& plan) {
  return absl::StrCat(Gigabytes(plan.total()), " of ", Gigabytes(plan.available), ": ", RowList(plan));
}

std::string PlanTable(const MemoryPlan& plan) {
  std::string table;
  const auto line = [&](const std::string& name, int64_t bytes) {
    absl::StrAppendFormat(&table, "  %-44s %9.3f GB\n", name, static_cast<double>(bytes) * 1e-9);
  };
  for (const MemoryPlan::Row& row : plan.rows) line(row.name, row.bytes);
  line("planned", plan.total());
  line("available", plan.available);
  return table;
}

}  // namespace ingot::app
