// The members that lend each other compute threads on this machine: trainer ranks and rollout engines
// (kernels/compute_share.h).
#pragma once

#include <memory>
#include <string>

#include "app/run/run_config.h"
#include "base/status.h"
#include "kernels/compute_share.h"

namespace ingot::app {

// Maps the table in file `path`, which the roles of one machine share, and creates the file if it is missing. Returns
// UNAVAILABLE, naming the file, if it cannot be opened, if it is not a regular file, or if its file system does not keep
// reserved space.
absl::StatusOr<std::shared_ptr<kernels::ComputeTable>> MapComputeTable(const std::string& path);

// Returns the member for trainer rank or engine `index`; `role` is "trainer" or "rollout". Returns null if threads are
// not lent: compute.lend is false, `device` is not the CPU, `table` is null, or the table has no place for it.
std::shared_ptr<kernels::ComputeMember> ComputeMemberOf(const RunConfig& config, const std::string& device,
                                                        std::shared_ptr<kernels::ComputeTable> table,
                                                        const std::string& role, int index);

// Same as ComputeMemberOf, with the table in RUN/compute_table. Returns null if the run's roles may be on several
// machines (cluster.registry.kind is not local), and if the table cannot be mapped, after a warning.
std::shared_ptr<kernels::ComputeMember> ComputeMemberOfRole(const RunConfig& config, const std::string& device,
                                                            const std::string& run_path, const std::string& role,
                                                            int index);

// Returns the time that `role`'s members have computed on borrowed threads, in seconds, summed over the threads.
double BorrowedSeconds(const kernels::ComputeTable& table, const std::string& role);

}  // namespace ingot::app
