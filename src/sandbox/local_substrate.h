// Sandboxes on this machine, at every isolation level. The launcher (sandbox/sandbox_launcher.h) makes the parts of the
// wall, and the probe finds out which parts the machine allows.
//
//   full, namespaces   a uid per sandbox (root) or a user namespace; PID, mount, network and IPC namespaces; a root
//                      folder; seccomp; full also has control groups
//   landlock           Landlock and seccomp; a uid per sandbox (root)
//   process, root      a uid per sandbox (UidRange), PID and mount namespaces, a private /proc
//   process, others    a user namespace per sandbox with PID and mount namespaces, a private /proc
//   always allowed     subreapers: a sandbox's first process adopts orphans, and ends them with the command
//
// Make tries sets of parts, strongest first, with a launcher each, and keeps the first set that the machine allows.
// With a pool, a thread opens sandboxes before they are asked for (sandbox_pool.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sandbox/local_sandbox.h"
#include "sandbox/sandbox_pool.h"
#include "sandbox/substrate.h"

namespace ingot::sandbox {

// More bits for `rejected`, next to the WallParts: the control groups for sandboxes' totals, and for freezing commands,
// by version.
inline constexpr uint32_t kGroupsRejected = 1u << 31;
inline constexpr uint32_t kFreezer1Rejected = 1u << 30;
inline constexpr uint32_t kFreezer2Rejected = 1u << 29;

class LocalSubstrate final : public Substrate {
 public:
  // For tests: `rejected` is a WallPart set that counts as not allowed by the machine; the launcher leaves `left_out`
  // out.
  static absl::StatusOr<std::unique_ptr<LocalSubstrate>> Make(const SubstrateOptions& options, uint32_t rejected = 0,
                                                              Measure left_out = Measure::kNone);
  const ProbeResult& probe_result() const override { return ground_.probe_result; }
  const SubstrateOptions& options() const override { return ground_.options; }
  using Substrate::Prepare;
  absl::StatusOr<std::unique_ptr<Sandbox>> Prepare(const SandboxOptions& options) override;

  pid_t launcher_pid() const { return ground_.launcher->pid(); }

 private:
  explicit LocalSubstrate(SubstrateOptions options) { ground_.options = std::move(options); }

  // The first part of a set that the machine does not allow.
  struct Rejection {
    uint32_t part = 0;  // of the set; 0 = all are allowed
    std::string reason;
  };

  // Sets the ground's probe result, launcher and, for sandboxes with uids, uids.
  absl::Status Probe(uint32_t rejected);
  // Starts a launcher with these parts, and checks that a sandbox of it reaches the programs.
  absl::StatusOr<Rejection> Try(uint32_t walls);
  absl::StatusOr<Rejection> CheckReach(uint32_t walls, int64_t uid);
  // Records the set that the machine allows, and tries control groups and overlays.
  absl::Status NoteProbeResult(uint32_t walls, uint32_t rejected);
  // Tries control groups that freeze commands: with a sandbox whose command enters one.
  void TryFreezers(uint32_t rejected);
  absl::Status TryFreezer(Freezers& freezers);
  absl::Status OpenUids();

  LocalGround ground_;  // outlives the sandboxes of the pool
  std::unique_ptr<SandboxPool> pool_;
};

}  // namespace ingot::sandbox
