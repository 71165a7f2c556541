// The rung `process`: a process tree that ends with its command, and whatever the machine grants beside it.
//
//   granted to root                a uid per room (UidRange), PID and mount namespaces, a private /proc
//   granted to others              a user namespace per room with PID and mount namespaces, a private /proc
//   nowhere refused                subreapers: a room's first process adopts orphans, and ends them with the command
//
// Make tries sets of parts, strongest first, with a launcher each, and keeps the first one that the machine grants.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sandbox/launcher.h"
#include "sandbox/substrate.h"
#include "sandbox/uid_range.h"

namespace ingot::sandbox {

class ProcessSubstrate final : public Substrate {
 public:
  // `refused`: a WallPart set that counts as refused by the machine, for tests of weaker ones.
  static absl::StatusOr<std::unique_ptr<ProcessSubstrate>> Make(const SubstrateOptions& options, uint32_t refused = 0);

  const Grant& grant() const override { return grant_; }
  absl::StatusOr<std::unique_ptr<Room>> Prepare() override;

  pid_t launcher_pid() const { return launcher_->pid(); }

 private:
  friend class ProcessRoom;
  explicit ProcessSubstrate(SubstrateOptions options) : options_(std::move(options)) {}

  // The answer of a machine that refuses a set of parts.
  struct Refusal {
    uint32_t part = 0;  // of the set; 0 = nothing was refused
    std::string reason;
  };

  // Finds grant_, launcher_ and, for uids of rooms, uids_.
  absl::Status Probe(uint32_t refused);
  // Begins a launcher with these parts, and starts checks in a room: whether it reaches the programs.
  absl::StatusOr<Refusal> Try(uint32_t walls);
  absl::StatusOr<Refusal> CheckReach(uint32_t walls, int64_t uid);
  absl::Status OpenUids();

  const SubstrateOptions options_;
  std::string work_root_;    // without links
  std::string known_users_;  // /etc/passwd
  Grant grant_;
  std::unique_ptr<UidRange> uids_;  // null: rooms have Ingot's uid
  std::unique_ptr<Launcher> launcher_;
};

}  // namespace ingot::sandbox
