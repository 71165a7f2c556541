// Plans the memory of one GPU of a run, before anything is allocated and without the GPU. The same plan serves
// `ingot model info --device`, `ingot config check --device`, and the start of a run.
//
//   trainer   weights | masters and moments | reference policy and trust region | gradients | activations | workspace
//   engine    weights of each loaded version | KV cache | a forward pass
//   process   CUDA context | cuBLAS workspaces | what the caching allocator cannot use
//
// If the trainer and the engines take turns, a step's gradients, activations, and workspace and an engine's KV cache and
// forward pass never exist at the same time, so the smaller of the two is subtracted.
//
// A trainer on a GPU counts one full micro-batch, or one sequence as long as the context, if that needs more. A batch
// whose tree makes more parts wait (trainer/pass/memory.h) may exceed the plan. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/config.h"
#include "rollout/engine/engine_options.h"
#include "trainer/options.h"

namespace ingot::app {

// The part of a run that one GPU computes.
struct GpuWork {
  model::ModelConfig shape;
  trainer::TrainerOptions trainer;
  rollout::EngineOptions rollout;
  int ranks = 1;        // trainer ranks of the run
  int rank = 0;         // the first rank on this GPU; -1 = none
  int ranks_here = 1;   // ranks on this GPU, each counted like the first
  int engines = 1;      // rollout engines on this GPU
  int versions = 2;     // versions that an engine has loaded at once: 2 during an update, and the retained ones
  int64_t context = 0;  // maximum length of a sequence in tokens; 0 = at most a micro-batch
  int processes = 1;    // processes that use this GPU
  // Whether the trainer and the engines take turns (cluster.placement), and whether they could.
  bool turns = false, may_take_turns = false;
};

struct MemoryPlan {
  struct Row {
    std::string name;
    int64_t bytes = 0;  // below 0 for memory that was counted twice
  };
  std::vector<Row> rows;  // in display order; without rows of 0 bytes
  int64_t available = 0;  // bytes of the GPU that the plan may use

  int64_t cache_tokens = 0;  // size of each engine's KV cache
  int64_t cache_rest = 0;    // largest KV cache, in whole blocks, that would fit; 0 = none

  int64_t total() const;
  bool fits() const { return total() <= available; }
};

// The memory outside of the plan's tensors.
enum class Overhead : uint8_t {
  kAll,         // CUDA contexts too: `available` is the GPU's whole memory
  kNoContexts,  // `available` was measured by a process that has its context
};

MemoryPlan PlanMemory(const GpuWork& work, int64_t available, Overhead overhead = Overhead::kAll);

// Returns settings that would make the work fit, each with its numbers, such as "trainer.checkpoint_layers=true with
// rollout.kv_cache_tokens=262144". The first ones change the least. Empty = nothing that was tried fits.
std::vector<std::string> WaysToFit(const GpuWork& work, int64_t available, Overhead overhead = Overhead::kAll);

// Returns RESOURCE_EXHAUSTED, with the plan's rows and the ways to fit, if the plan does not fit. `gpu` is its name in
// the error, such as "the GPU".
absl::Status CheckPlan(const GpuWork& work, const MemoryPlan& plan, const std::string& gpu, Overhead overhead);

// Returns a line, such as "47.1 GB of 84.7 GB: trainer's weights 1.19 GB, ...".
std::string PlanLine(const MemoryPlan& plan);
// Returns a line per row, each ending with a line end.
std::string PlanTable(const MemoryPlan& plan);

}  // namespace ingot::app
