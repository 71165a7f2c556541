// Rooms on this machine, in every rung: the launcher (sandbox/launcher.h) makes the parts of the wall, and the probe finds
// out which ones the machine grants.
//
//   full, namespaces   a uid per room (root) or a user namespace; PID, mount, network, IPC namespaces; a root folder; seccomp;
//                      full has control groups beside them
//   landlock           Landlock and seccomp; a uid per room (root)
//   process, root      a uid per room (UidRange), PID and mount namespaces, a private /proc
//   process, others    a user namespace per room with PID and mount namespaces, a private /proc
//   nowhere refused    subreapers: a room's first process adopts orphans, and ends them with the command
//
// Make tries sets of parts, strongest first, with a launcher each, and keeps the first one that the machine grants. With a
// pool, a thread opens rooms before they are asked for (room_pool.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sandbox/local_room.h"
#include "sandbox/room_pool.h"
#include "sandbox/substrate.h"

namespace ingot::sandbox {

// Beside the WallParts, for `refused`: control groups of rooms' totals, and those of each version that freeze commands.
inline constexpr uint32_t kGroupsRefused = 1u << 31;
inline constexpr uint32_t kFreezer1Refused = 1u << 30;
inline constexpr uint32_t kFreezer2Refused = 1u << 29;

class LocalSubstrate final : public Substrate {
 public:
  // For tests: `refused` is a WallPart set that counts as refused by the machine, and `left_out` a measure that the launcher
  // leaves out.
  static absl::StatusOr<std::unique_ptr<LocalSubstrate>> Make(const SubstrateOptions& options, uint32_t refused = 0,
                                                              Measure left_out = Measure::kNone);
  const Grant& grant() const override { return ground_.grant; }
  const SubstrateOptions& options() const override { return ground_.options; }
  using Substrate::Prepare;
  absl::StatusOr<std::unique_ptr<Room>> Prepare(const RoomOptions& options) override;

  pid_t launcher_pid() const { return ground_.launcher->pid(); }

 private:
  explicit LocalSubstrate(SubstrateOptions options) { ground_.options = std::move(options); }

  // The answer of a machine that refuses a set of parts.
  struct Refusal {
    uint32_t part = 0;  // of the set; 0 = nothing was refused
    std::string reason;
  };

  // Finds the ground's grant, launcher and, for uids of rooms, uids.
  absl::Status Probe(uint32_t refused);
  // Begins a launcher with these parts, and starts checks in a room: whether it reaches the programs.
  absl::StatusOr<Refusal> Try(uint32_t walls);
  absl::StatusOr<Refusal> CheckReach(uint32_t walls, int64_t uid);
  // Records the set that the machine grants, and tries control groups and overlays.
  absl::Status NoteGrant(uint32_t walls, uint32_t refused);
  // Tries control groups that freeze commands: with a room whose command enters one.
  void TryFreezers(uint32_t refused);
  absl::Status TryFreezer(Freezers& freezers);
  absl::Status OpenUids();

  LocalGround ground_;  // outlives the rooms of the pool
  std::unique_ptr<RoomPool> pool_;
};

}  // namespace ingot::sandbox
