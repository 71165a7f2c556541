// Whether one machine has enough memory for all its processes. Each process checks its own memory when it starts, but
// two that fit separately may not fit together.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "app/cluster/run_roles.h"
#include "app/run/run_config.h"
#include "base/status.h"
#include "model/config.h"

namespace ingot::app {

// What the trainer's ranks and the engines among some roles need, in bytes. The other roles are small.
struct MachineNeed {
  int engines = 0, ranks = 0;
  int64_t cache = 0;     // of one engine's keys and values
  int64_t versions = 0;  // of one engine's weights: the version it serves and the version it decodes
  int64_t trainer = 0;   // of all ranks

  int64_t total() const { return engines * (cache + versions) + trainer; }
};

MachineNeed NeedOfRoles(const RunConfig& config, const model::ModelConfig& shape, std::span<const RoleProcess> roles);

// RESOURCE_EXHAUSTED, with the numbers and a fix: `need` is more than the `available` bytes of `machine`, such as
// "this machine".
absl::Status CheckMachineHolds(const MachineNeed& need, int64_t available, const RunConfig& config,
                               const std::string& machine);

// The same for roles of this machine that compute on its CPU. Devices report by themselves what does not fit. Memory
// that is freed within five seconds counts. A limit of this process's address space does not: each role has its own.
absl::Status CheckHeldHere(const RunConfig& config, const model::ModelConfig& shape, std::span<const RoleProcess> roles,
                           const std::string& machine);

}  // namespace ingot::app
