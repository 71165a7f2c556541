#include "app/checks/machine_memory.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
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

// Returns the part of their memory that the roles certainly allocate on their device.
MachineNeed NeedOnDevice(const RunConfig& config, const model::ModelConfig& shape, std::span<const RoleProcess> roles) {
  MachineNeed need = NeedOfRoles(config, shape, roles);
  const trainer::TrainerBytes trainer = trainer::LeastBytes(config.trainer, shape, config.cluster.trainer_ranks);
  need.trainer = 0;
  for (const RoleProcess& process : roles) {
    if (process.role == "trainer") need.trainer += trainer.on_devices[static_cast<size_t>(process.index)];
  }
  return need;
}

}  // namespace

MachineNeed NeedOfRoles(const RunConfig& config, const model::ModelConfig& shape, std::span<const RoleProcess> roles) {
  MachineNeed need;
  const trainer::TrainerBytes trainer = trainer::LeastBytes(config.trainer, shape, config.cluster.trainer_ranks);
  need.cache = rollout::CacheBytes(shape, config.rollout);
  need.versions = 2 * trainer.version;
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
    absl::StrAppendFormat(&parts, "%s%d engine%s of %.3g GB (KV cache %.3g GB, two versions %.3g GB)",
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
    INGOT_RETURN_IF_ERROR(CheckMachineHolds(NeedOnDevice(config, shape, sharing), *bytes, config, name));
  }
  return absl::OkStatus();
}

absl::Status CheckHeldHere(const RunConfig& config, const model::ModelConfig& shape, std::span<const RoleProcess> roles,
                           const std::string& machine) {
  INGOT_ASSIGN_OR_RETURN(const DeviceChoice device, OpenDevice(config.device));
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

absl::Status CheckDeviceHolds(const RunConfig& config, const model::ModelConfig& shape, const DeviceChoice& device) {
  if (device.torch_name == "cpu") return absl::OkStatus();
  INGOT_RETURN_IF_ERROR(shape.CheckDevice(device.torch_name));
  std::vector<RoleProcess> roles = {{"trainer", 0}};
  if (!config.tasks.empty() && !config.has_external_engine()) roles.push_back({"rollout", 0});
  const MachineNeed need = NeedOnDevice(config, shape, roles);
  const std::string users = ShowUsers(device.users);
  return trainer::AtTorchEdge(device.torch_name, [&] {
    return CheckMachineHolds(need, model::AvailableDeviceMemory(at::Device(device.torch_name)), config,
                             absl::StrCat("the GPU", users.empty() ? "" : " (" + users + ")"));
  });
}

}  // namespace ingot::app
