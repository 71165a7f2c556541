// Runs sandboxes on this machine, at every isolation level. The launcher (sandbox/sandbox_launcher.h) sets up the
// isolation, and a probe determines what the machine allows.
//
//   full, namespaces   a uid per sandbox (root) or a user namespace; PID, mount, network, and IPC namespaces; a root
//                      folder; seccomp; full also uses control groups
//   landlock           Landlock and seccomp; a uid per sandbox (root)
//   process, root      a uid per sandbox (UidRange), PID and mount namespaces, a private /proc
//   process, others    a user namespace per sandbox with PID and mount namespaces, a private /proc
//   everywhere         subreapers: a sandbox's first process adopts orphans and kills them when the command ends
//
// Make tries combinations of parts from strongest to weakest, starting a launcher for each, and keeps the first one
// that the machine allows. With a pool, a thread opens sandboxes in advance (sandbox_pool.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sandbox/local_sandbox.h"
#include "sandbox/sandbox_pool.h"
#include "sandbox/substrate.h"

namespace ingot::sandbox {

// Bits for `rejected` in addition to IsolationParts: control groups that limit a sandbox's totals, and control groups that
// freeze its commands (cgroup version 1 or 2).
inline constexpr uint32_t kGroupsRejected = 1u << 31;
inline constexpr uint32_t kFreezer1Rejected = 1u << 30;
inline constexpr uint32_t kFreezer2Rejected = 1u << 29;

class LocalSubstrate final : public Substrate {
 public:
  // `rejected` is a set of IsolationParts to treat as not allowed on this machine. The launcher skips the measure
  // `left_out`. Both are for tests.
  static absl::StatusOr<std::unique_ptr<LocalSubstrate>> Make(const SubstrateOptions& options, uint32_t rejected = 0,
                                                              Measure left_out = Measure::kNone);
  const ProbeResult& probe_result() const override { return ground_.probe_result; }
  const SubstrateOptions& options() const override { return ground_.options; }
  using Substrate::Prepare;
  absl::StatusOr<std::unique_ptr<Sandbox>> Prepare(const SandboxOptions& options) override;

  pid_t launcher_pid() const { return ground_.launcher->pid(); }

 private:
  explicit LocalSubstrate(SubstrateOptions options) { ground_.options = std::move(options); }

  // The first isolation part that the machine does not allow.
  struct Rejection {
    uint32_t part = 0;  // 0 = all parts are allowed
    std::string reason;
  };

  // Sets the probe result and launcher in ground_, and the uid range if sandboxes have their own uids.
  absl::Status Probe(uint32_t rejected);
  // Starts a launcher with these parts and checks that its sandboxes can access the programs.
  absl::StatusOr<Rejection> Try(uint32_t isolation);
  absl::StatusOr<Rejection> CheckReach(uint32_t isolation, int64_t uid);
  // Records the allowed parts, then tries control groups and overlays.
  absl::Status NoteProbeResult(uint32_t isolation, uint32_t rejected);
  // Tries the control groups that freeze commands, using a sandbox whose command enters one.
  void TryFreezers(uint32_t rejected);
  absl::Status TryFreezer(Freezers& freezers);
  absl::Status OpenUids();

  LocalGround ground_;  // declared first because the pool's sandboxes use it
  std::unique_ptr<SandboxPool> pool_;
};

}  // namespace ingot::sandbox
