#include "app/checks/machine_memory.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/process_memory.h"
#include "kv/memory_store.h"
#include "model/device_memory.h"
#include "rollout/engine/torch_runner.h"
#include "trainer/run_memory.h"
#include "trainer/torch_edge.h"

namespace ingot::app {
namespace {

using RolesByDevice = std::map<int, std::vector<RoleProcess>>;

// Leaves out the roles that do not compute on the run's devices.
RolesByDevice ByDevice(const RunConfig& config, std::span<const RoleProcess> roles, int devices) {
  RolesByDevice sharing;
  for (const RoleProcess& process : roles) {
    const bool engine = process.role == "rollout" && !config.has_external_engine();
    if (process.role != "trainer" && !engine) continue;
    sharing[DevicePlaceOf(config, process) % devices].push_back(process);
  }
  return sharing;
}

// Returns the computing processes of a run in one process.
std::vector<RoleProcess> ProcessesOfTrain(const RunConfig& config) {
  std::vector<RoleProcess> processes = {{"trainer", 0}};
  if (!config.tasks.empty()) processes.push_back({"rollout", 0});
  return processes;
}

// Returns the processes of each machine.
absl::StatusOr<std::vector<std::vector<RoleProcess>>> ProcessesOfMachines(const RunConfig& config) {
  std::vector<std::vector<RoleProcess>> machines;
  for (const NodeGroup& group : config.cluster.groups) {
    for (int node = 0; node < group.nodes; ++node) {
      INGOT_ASSIGN_OR_RETURN(std::vector<RoleProcess> processes, RolesOfNode(config, group.name, node));
      machines.push_back(std::move(processes));
    }
  }
  if (machines.empty()) machines.push_back(AllRoles(config));
  return machines;
}

// Returns INVALID_ARGUMENT if the trainer has more ranks on a machine than the machine has GPUs, as at its start.
absl::Status CheckGpuForEachRank(const RunConfig& config, const GpuMachine& gpus) {
  const int ranks = RanksPerNode(config);
  if (gpus.count == 0 || ranks <= gpus.count) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "cluster.trainer_ranks puts ", ranks, " ranks on a machine with ", gpus.count, " GPU", gpus.count > 1 ? "s" : "",
      " (", gpus.card, "), and each rank needs one: use fewer ranks, or machines with more GPUs"));
}

// Returns the processes of each GPU. 0 GPUs = one for each process.
absl::StatusOr<std::vector<std::vector<RoleProcess>>> ProcessesOfGpus(const RunConfig& config, int gpus) {
  INGOT_ASSIGN_OR_RETURN(const auto machines, ProcessesOfMachines(config));
  RunConfig apart = config;
  apart.cluster.host = "auto";  // each node is a machine with its own GPUs
  std::vector<std::vector<RoleProcess>> all;
  for (const std::vector<RoleProcess>& machine : machines) {
    const int devices = gpus > 0 ? gpus : std::numeric_limits<int>::max();
    for (auto& [device, processes] : ByDevice(apart, machine, devices)) all.push_back(processes);
  }
  return all;
}

absl::StatusOr<std::vector<std::vector<RoleProcess>>> OnOneGpu(const RunConfig& config) {
  return std::vector<std::vector<RoleProcess>>{ProcessesOfTrain(config)};
}

// Returns how many versions before the newest an engine keeps.
int EarlierVersions(const RunConfig& config) {
  return config.rollout.episode_version == rollout::EpisodeVersion::kPinned ? config.rollout.episode_versions : 0;
}

// Returns the versions that an engine has loaded at once.
int VersionsOf(const RunConfig& config) {
  int versions = 2 + EarlierVersions(config);
  for (const gateway::ModelOptions& model : config.gateway.models) {
    versions += model.weights == gateway::ModelWeights::kPinned ? 1 : 0;
  }
  const bool evaluates = config.eval.has_tasks() && config.eval.of_earlier_versions();
  return versions + (evaluates ? static_cast<int>(MaxEvaluations(config)) : 0);
}

std::string Describe(const GpuWork& work) {
  const std::string rank = work.ranks == 1  ? "the trainer"
                           : work.rank == 0 ? "the trainer's rank 0"
                                            : "another rank of the trainer";
  const std::string engines = work.engines == 1 ? "an engine" : absl::StrCat(work.engines, " engines");
  if (work.engines == 0) return rank;
  return work.rank < 0 ? engines : absl::StrCat(rank, " and ", engines);
}

}  // namespace

MachineNeed NeedOfRoles(const RunConfig& config, const model::ModelConfig& shape, std::span<const RoleProcess> roles) {
  MachineNeed need;
  const trainer::TrainerBytes trainer = trainer::LeastBytes(config.trainer, shape, config.cluster.trainer_ranks);
  need.cache = rollout::CacheBytes(shape, config.rollout);
  need.versions = (2 + EarlierVersions(config)) * trainer.version;
  for (const RoleProcess& process : roles) {
    if (process.role == "rollout") {
      ++need.engines;
      const bool keeps =
          kv::IsInMemory(config.rollout.kv_store) && process.index < config.rollout.router.prefill_engines;
      if (keeps) need.kept += std::min(config.rollout.kv_store.max_bytes, need.cache);
    }
    if (process.role != "trainer") continue;
    ++need.ranks;
    need.trainer += trainer.ranks[static_cast<size_t>(process.index)];
  }
  return need;
}

absl::Status CheckMachineHolds(const MachineNeed& need, int64_t available, const RunConfig& config,
                               const std::string& machine) {
  if (need.total() <= available) return absl::OkStatus();
  const auto gb = [](int64_t bytes) { return static_cast<double>(bytes) * 1e-9; };
  std::string parts, advice;
  if (need.ranks > 0) {
    parts = absl::StrFormat("the trainer's %d rank%s %.3g GB", need.ranks, need.ranks > 1 ? "s" : "", gb(need.trainer));
    advice = "trainer.micro_batch_tokens, or choose a smaller model";
  }
  if (need.engines > 0) {
    absl::StrAppendFormat(&parts, "%s%d engine%s of %.3g GB (KV cache %.3g GB, versions %.3g GB)",
                          parts.empty() ? "" : ", ", need.engines, need.engines > 1 ? "s" : "",
                          gb(need.cache + need.versions), gb(need.cache), gb(need.versions));
    if (need.kept > 0) absl::StrAppendFormat(&parts, ", KV for other engines %.3g GB", gb(need.kept));
    const int64_t left = available - need.trainer - need.kept - need.engines * need.versions;
    const int64_t of_token = std::max<int64_t>(1, need.cache / config.rollout.kv_cache_tokens);
    advice = absl::StrFormat("rollout.kv_cache_tokens (%d; %d would fit)%s%s", config.rollout.kv_cache_tokens,
                             std::max<int64_t>(0, left / need.engines / of_token),
                             need.engines > 1 ? ", the number of engines" : "", advice.empty() ? "" : ", " + advice);
  }
  return absl::ResourceExhaustedError(
      absl::StrFormat("%s does not have enough memory for the run: %s; %.3g GB are available. Lower %s", machine, parts,
                      gb(available), advice));
}

absl::Status CheckDevicesHold(const RunConfig& config, const model::ModelConfig& shape,
                              std::span<const RoleProcess> roles, int devices, const DeviceBytes& available,
                              const std::string& machine) {
  for (const auto& [device, sharing] : ByDevice(config, roles, devices)) {
    const std::optional<int64_t> bytes = available(device);
    if (!bytes.has_value()) continue;
    const std::string name = absl::StrCat("GPU ", device, " of ", machine);
    const GpuWork work = GpuWorkOf(config, shape, sharing, /*one_process=*/false);
    INGOT_RETURN_IF_ERROR(CheckPlan(work, PlanMemory(work, *bytes), name, Overhead::kAll));
  }
  return absl::OkStatus();
}

absl::Status CheckHeldHere(const RunConfig& config, const model::ModelConfig& shape, std::span<const RoleProcess> roles,
                           const std::string& machine) {
  INGOT_ASSIGN_OR_RETURN(const DeviceChoice device, OpenDevice(config.device));
  INGOT_RETURN_IF_ERROR(shape.CheckDevice(device.torch_name));
  const auto check = [&] {
    if (device.torch_name == "cpu") {
      return CheckMachineHolds(NeedOfRoles(config, shape, roles), base::MachineMemoryLeft(""), config, machine);
    }
    const auto available = [&](int number) { return MemoryWithoutOthers(device, number); };
    return CheckDevicesHold(config, shape, roles, device.devices, available, machine);
  };
  // If a launcher was just killed, its processes may still hold memory for a moment.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  absl::Status held;
  do {
    held = check();
    if (held.ok()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  } while (std::chrono::steady_clock::now() < until);
  return held;
}

GpuWork GpuWorkOf(const RunConfig& config, const model::ModelConfig& shape, std::span<const RoleProcess> processes,
                  bool one_process) {
  GpuWork work{.shape = shape, .trainer = config.trainer, .rollout = config.rollout};
  work.ranks = config.cluster.trainer_ranks;
  work.rank = -1;
  work.engines = 0;
  work.versions = VersionsOf(config);
  work.context = config.rollout.context_length > 0
                     ? std::min<int64_t>(config.rollout.context_length, shape.max_position_embeddings)
                     : shape.max_position_embeddings;
  for (const RoleProcess& process : processes) {
    if (process.role == "trainer") {
      work.ranks_here = work.rank < 0 ? 1 : work.ranks_here + 1;
      work.rank = work.rank < 0 ? process.index : std::min(work.rank, process.index);
    }
    if (process.role == "rollout" && !config.has_external_engine()) ++work.engines;
  }
  work.processes = one_process ? 1 : (work.rank < 0 ? 0 : work.ranks_here) + work.engines;
  work.may_take_turns = work.rank >= 0 && work.engines > 0 && config.cluster.takeover_engines == 0;
  work.turns = work.may_take_turns && config.cluster.placement == Placement::kShared;
  return work;
}

absl::StatusOr<GpuPlan> PlanOnDevice(const RunConfig& config, const model::ModelConfig& shape,
                                     const DeviceChoice& device) {
  INGOT_RETURN_IF_ERROR(shape.CheckDevice(device.torch_name));
  const GpuWork work = GpuWorkOf(config, shape, ProcessesOfTrain(config), /*one_process=*/true);
  INGOT_ASSIGN_OR_RETURN(const int64_t available,
                         trainer::AtTorchEdge(device.torch_name, [&]() -> absl::StatusOr<int64_t> {
                           return model::AvailableDeviceMemory(at::Device(device.torch_name));
                         }));
  GpuPlan plan{Describe(work), PlanMemory(work, available, Overhead::kNoContexts)};
  const std::string users = ShowUsers(device.users);
  INGOT_RETURN_IF_ERROR(CheckPlan(work, plan.plan, absl::StrCat("the GPU", users.empty() ? "" : " (" + users + ")"),
                                  Overhead::kNoContexts));
  return plan;
}

std::string NoteOfSharedGpus(const RunConfig& config, const GpuMachine& gpus) {
  const absl::StatusOr<std::vector<std::vector<RoleProcess>>> all = ProcessesOfGpus(config, gpus.count);
  if (!all.ok()) return "";  // PlanOnGpus returns the error
  size_t processes = 0;
  for (const std::vector<RoleProcess>& sharing : *all) processes += sharing.size();
  if (processes <= all->size()) return "";
  return absl::StrCat("the run's ", processes, " trainer ranks and engines have only ", all->size(),
                      " GPUs, so some share one and slow each other down");
}

absl::StatusOr<std::vector<GpuPlan>> PlanOnGpus(const RunConfig& config, const model::ModelConfig& shape,
                                                const GpuMachine& gpus, bool one_process) {
  INGOT_RETURN_IF_ERROR(shape.CheckDevice("cuda:0"));
  if (!one_process) INGOT_RETURN_IF_ERROR(CheckGpuForEachRank(config, gpus));
  INGOT_ASSIGN_OR_RETURN(const auto all, one_process ? OnOneGpu(config) : ProcessesOfGpus(config, gpus.count));
  std::vector<GpuPlan> plans;
  for (const std::vector<RoleProcess>& processes : all) {
    const GpuWork work = GpuWorkOf(config, shape, processes, one_process);
    GpuPlan plan{Describe(work), PlanMemory(work, gpus.card_bytes)};
    INGOT_RETURN_IF_ERROR(
        CheckPlan(work, plan.plan, absl::StrCat("a GPU (", gpus.card, ") with ", plan.what), Overhead::kAll));
    const auto same = std::ranges::find(plans, plan.what, &GpuPlan::what);
    if (same == plans.end()) {
      plans.push_back(std::move(plan));
    } else if (same->plan.total() < plan.plan.total()) {  // ranks own different parameters
      *same = std::move(plan);
    }
  }
  return plans;
}

}  // namespace ingot::app
