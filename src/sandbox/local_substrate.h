// Sandboxes on this machine, at every isolation level. The launcher (sandbox/sandbox_launcher.h) builds the parts of
// the wall, and the probe finds out which parts the machine allows.
//
//   full, namespaces   a uid per sandbox (root) or a user namespace; PID, mount, network and IPC namespaces; a root
//                      folder; seccomp; full also has control groups
//   landlock           Landlock and seccomp; a uid per sandbox (root)
//   process, root      a uid per sandbox (UidRange), PID and mount namespaces, a private /proc
//   process, others    a user namespace per sandbox with PID and mount namespaces, a private /proc
//   always allowed     subreapers: a sandbox's first process adopts orphans and kills them when the command ends
//
// Make tries sets of parts, strongest first, starting a launcher for each, and keeps the first set that the machine
// allows. With a pool, a thread opens sandboxes before they are asked for (sandbox_pool.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sandbox/local_sandbox.h"
#include "sandbox/sandbox_pool.h"
#include "sandbox/substrate.h"

namespace ingot::sandbox {

// More bits for `rejected`, in addition to the WallParts: the control groups that limit a sandbox's totals, and those
// that freeze its commands (cgroup version 1 or 2).
inline constexpr uint32_t kGroupsRejected = 1u << 31;
inline constexpr uint32_t kFreezer1Rejected = 1u << 30;
inline constexpr uint32_t kFreezer2Rejected = 1u << 29;

class LocalSubstrate final : public Substrate {
 public:
  // For tests: `rejected` is a set of WallParts to treat as not allowed by the machine; the launcher skips the measure
  // `left_out`.
  static absl::StatusOr<std::unique_ptr<LocalSubstrate>> Make(const SubstrateOptions& options, uint32_t rejected = 0,
                                                              Measure left_out = Measure::kNone);
  const ProbeResult& probe_result() const override { return ground_.probe_result; }
  const SubstrateOptions& options() const override { return ground_.options; }
  using Substrate::Prepare;
  absl::StatusOr<std::unique_ptr<Sandbox>> Prepare(const SandboxOptions& options) override;

  pid_t launcher_pid() const { return ground_.launcher->pid(); }

 private:
  explicit LocalSubstrate(SubstrateOptions options) { ground_.options = std::move(options); }

  // Of a set of parts, the first one that the machine does not allow.
  struct Rejection {
    uint32_t part = 0;  // of the set; 0 = all are allowed
    std::string reason;
  };

  // Sets the ground's probe result, launcher and, for sandboxes with uids, uids.
  absl::Status Probe(uint32_t rejected);
  // Starts a launcher with these parts, and checks that a sandbox opened by it can access the programs.
  absl::StatusOr<Rejection> Try(uint32_t walls);
  absl::StatusOr<Rejection> CheckReach(uint32_t walls, int64_t uid);
  // Records the set that the machine allows, and tries control groups and overlays.
  absl::Status NoteProbeResult(uint32_t walls, uint32_t rejected);
  // Tries the control groups that freeze commands, using a sandbox whose command enters one.
  void TryFreezers(uint32_t rejected);
  absl::Status TryFreezer(Freezers& freezers);
  absl::Status OpenUids();

  LocalGround ground_;  // outlives the sandboxes of the pool
  std::unique_ptr<SandboxPool> pool_;
};

}  // namespace ingot::sandbox
