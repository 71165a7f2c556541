// Checks whether a machine, or each GPU, has enough memory for all its processes together. Each process also checks its
// own memory when it starts, but two processes that fit separately may not fit together.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/checks/memory_plan.h"
#include "app/cluster/run_roles.h"
#include "app/models/device.h"
#include "app/models/gpu_card.h"
#include "app/run/run_config.h"
#include "base/status.h"
#include "model/config.h"

namespace ingot::app {

// The memory, in bytes, that a set of roles needs for its engines and trainer ranks. Other roles are small and are not
// counted.
struct MachineNeed {
  int engines = 0, ranks = 0;
  int64_t cache = 0;     // one engine's KV cache
  int64_t kept = 0;      // prompts' KV that engines keep for others (rollout.kv_store.path: memory://), all together
  int64_t versions = 0;  // one engine's weights: the version it serves and the version it is decoding
  int64_t trainer = 0;   // all ranks together

  int64_t total() const { return engines * (cache + versions) + kept + trainer; }
};

MachineNeed NeedOfRoles(const RunConfig& config, const model::ModelConfig& shape, std::span<const RoleProcess> roles);

// Returns RESOURCE_EXHAUSTED, with the numbers and a fix, if `need` exceeds the `available` bytes. `machine` is the
// machine's name in the error, such as "this machine".
absl::Status CheckMachineHolds(const MachineNeed& need, int64_t available, const RunConfig& config,
                               const std::string& machine);

// Returns RESOURCE_EXHAUSTED if the plan for the roles that share one of the machine's devices needs more than `available`
// returns for that device (nullopt = unknown). Pure.
using DeviceBytes = std::function<std::optional<int64_t>(int device)>;
absl::Status CheckDevicesHold(const RunConfig& config, const model::ModelConfig& shape,
                              std::span<const RoleProcess> roles, int devices, const DeviceBytes& available,
                              const std::string& machine);

// Checks the roles that compute on this machine, which are not running yet: on its CPU, or on each of its GPUs. Waits
// up to five seconds for memory to be freed. Ignores this process's address space limit, because each role has its own.
// Creates no CUDA context.
absl::Status CheckHeldHere(const RunConfig& config, const model::ModelConfig& shape, std::span<const RoleProcess> roles,
                           const std::string& machine);

// Returns the work of all `processes` that share a GPU. `one_process` = all roles are in one process.
GpuWork GpuWorkOf(const RunConfig& config, const model::ModelConfig& shape, std::span<const RoleProcess> processes,
                  bool one_process);

// A plan for the processes of a run that share a GPU.
struct GpuPlan {
  std::string what;  // those processes, such as "the trainer and an engine"
  MemoryPlan plan;
};

// Plans a run in one process, whose trainer and engine share `device`, with the memory that other processes leave of it.
// Returns RESOURCE_EXHAUSTED if it does not fit, and UNIMPLEMENTED if the device has no kernels for the model. REQUIRES:
// `device` is not the CPU.
absl::StatusOr<GpuPlan> PlanOnDevice(const RunConfig& config, const model::ModelConfig& shape,
                                     const DeviceChoice& device);

// Plans a run on GPUs that this machine may not have. Returns the largest plan for each kind of GPU, such as those
// with another rank than 0. `one_process` = all roles are in one process, as with `ingot train`. Otherwise, each machine has
// `gpus.count` GPUs, which its trainer ranks and then its engines take in turn. Same errors as PlanOnDevice and
// RolesOfNode, and INVALID_ARGUMENT if a machine has fewer GPUs than trainer ranks.
absl::StatusOr<std::vector<GpuPlan>> PlanOnGpus(const RunConfig& config, const model::ModelConfig& shape,
                                                const GpuMachine& gpus, bool one_process);

// Returns a note with the numbers if some of a launched run's ranks and engines must share a GPU; empty = none do.
std::string NoteOfSharedGpus(const RunConfig& config, const GpuMachine& gpus);

}  // namespace ingot::app
