// A Substrate is the ground that agents run on. It prepares a room for each episode, and every command of the episode
// runs in that room: set-up, agent, verifier, clean-up. The Room owns its folders and its processes.
//
//   Substrate::Prepare ──▶ Room ──WriteFile──▶ Run(set-up) ──▶ Run(agent) ──ReadFile──▶ Run(verifier) ──▶ ~Room
//                           │ work/ home/ tmp/        │                                                    │
//                           └ seen inside as work(),  └ ends with every process that it started,           └ nothing of
//                             home(), tmp()             daemons too                                          it is left
//
// A RUNG names the strength of the wall between a room and everything else, strongest first:
//
//   full         namespaces, and totals of memory, CPU and disk (cgroup), and a seccomp program
//   namespaces   a root folder, a network and a PID namespace of its own
//   landlock     no namespaces: Landlock, seccomp and limits
//   process      a process tree that ends with its command; beside it whatever of uid, PID and mount namespaces the
//                machine grants
//
// This build has the rung `process`. A Probe at the start finds out the Grant; docs/sandbox.md has the table of attacks.
//
// Obligations of an implementation:
//   1. Run returns after the last process of its command is gone, whatever sessions and groups these processes made.
//   2. If the owner of the Substrate dies, by SIGKILL too, the commands of all rooms end.
//   3. No parent of an agent's process holds a key: neither the run's nor another episode's.
//   4. A path is given and taken as commands inside see it. Only work/ is read and written from outside, and no link
//      is followed there.
//   5. A failure of the substrate itself is a Status, never an Outcome: the episode is tried again.
//
// Threads: Prepare is thread safe. A Room is used by one thread at a time. Run blocks for at most the command's time
// limit and grace, plus the moment that killed processes need to go away.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "sandbox/process.h"

namespace ingot::sandbox {

// Weakest first, so that rungs compare.
enum class Rung { kProcess, kLandlock, kNamespaces, kFull };

std::string_view RungName(Rung rung);

// A Grant says which parts of the wall this machine gives. It is found once, at the start, by trying.
struct Grant {
  Rung rung = Rung::kProcess;
  bool own_uid = false;          // a room has a uid that neither Ingot's processes nor another room have
  bool user_namespace = false;   // a room is in a user namespace of its own, without capabilities
  bool pid_namespace = false;    // a room sees and signals its own processes alone
  bool mount_namespace = false;  // hidden paths are hidden, whatever their mode
  bool private_proc = false;     // /proc shows the room's own processes
  int64_t first_uid = 0;         // own_uid: the rooms' uids begin here
  // Parts that the machine refused, each with the reason: "PID and mount namespaces (clone: Operation not permitted)".
  std::vector<std::string> refused;

  // True: nothing but good manners keeps an agent from Ingot's own processes.
  bool is_open() const { return !own_uid && !pid_namespace; }
  // One line for the start of a run: "rung process: a uid per room (from 1900000000), ..; not: .. (reason)".
  std::string Describe() const;
  // For the record of an episode: {"rung":"process","own_uid":true,..}.
  std::string Json() const;
};

// A program that a recipe names. Rooms must be able to reach it.
struct Program {
  std::string name;               // for errors: "agents.recipes 'solver' command"
  std::vector<std::string> argv;  // argv[0] as in Command; further arguments count where they are absolute paths
  std::string path;               // PATH of its environment; empty = the usual folders
};

struct SubstrateOptions {
  // The parent of the rooms' folders, on a local disk; made if missing.
  std::string work_root;
  // The least rung: "none", "landlock", "namespaces" or "full". Above "none" the start is refused where the machine or
  // this build gives less, and where agents would share the uid of Ingot's processes.
  std::string require = "none";
  // "own" = each room has a uid of its own, or the start is refused. "shared" = agents have Ingot's uid and keep its
  // capabilities. "auto" = own where the machine grants it and rooms reach every program, else shared without
  // capabilities, which the start says.
  std::string agent_uid = "auto";
  // The first uid of rooms, in [1, 2^31); each room takes the next one that no other run of this machine has.
  int64_t uid_base = 1'900'000'000;
  // Files and folders that no room may see: tasks, the runs' folder, keys. Missing ones are skipped.
  std::vector<std::string> hidden;
  std::vector<Program> programs;

  absl::Status Validate() const;
};

class Room {
 public:
  // Ends what still runs and removes the folders.
  virtual ~Room() = default;

  // As commands inside see them. work() is the working folder, home() is HOME and empty at first, tmp() is TMPDIR.
  virtual const std::string& work() const = 0;
  virtual const std::string& home() const = 0;
  virtual const std::string& tmp() const = 0;
  // The address under which commands inside reach the gateway, whose own address is `url`.
  virtual std::string InsideUrl(const std::string& url) const = 0;

  // Writes work/`relative` and makes the folders on the way; replaces whatever an agent put there. INVALID_ARGUMENT: the
  // path leaves work/. A text that begins with "#!" becomes executable.
  virtual absl::Status WriteFile(const std::string& relative, std::string_view content) = 0;

  // Reads work/`relative`. NOT_FOUND; RESOURCE_EXHAUSTED above `limit_bytes`; INVALID_ARGUMENT: no regular file.
  virtual absl::StatusOr<std::string> ReadFile(const std::string& relative, int64_t limit_bytes) = 0;

  // Makes an empty folder beside work/, which no process of the room has used, and returns its path inside.
  virtual absl::StatusOr<std::string> AddFolder(const std::string& name) = 0;

  // Runs one command in the room. An error means that it did not run, or that the substrate broke under it: NOT_FOUND
  // (no such program or folder), PERMISSION_DENIED, INVALID_ARGUMENT (empty argv, a NUL byte, too large, not an
  // executable file), RESOURCE_EXHAUSTED (no process, descriptor or memory left), CANCELLED, UNAVAILABLE (the room's
  // first process died). A command that ran has an Outcome, however it ended. `cancel` may be null.
  virtual absl::StatusOr<Outcome> Run(const Command& command, const Limits& limits, const Cancellation* cancel) = 0;

  // Leaves the folders to people, as kept-`name` under the work root, and returns the path outside. `beside`: files next
  // to work/, name to content. Nothing runs in the room afterwards. No later room can enter the folder.
  virtual absl::StatusOr<std::string> Keep(const std::string& name,
                                           const std::map<std::string, std::string>& beside) = 0;
};

class Substrate {
 public:
  virtual ~Substrate() = default;

  virtual const Grant& grant() const = 0;

  // UNAVAILABLE, RESOURCE_EXHAUSTED: no folder, uid or process; worth another try.
  virtual absl::StatusOr<std::unique_ptr<Room>> Prepare() = 0;
};

// Probes the machine and returns its strongest substrate. FAILED_PRECONDITION: it is weaker than `require`, or lacks the
// uid that agent_uid "own" asks for; the message has the probe's findings. Removes folders that killed runs left in
// work_root.
absl::StatusOr<std::unique_ptr<Substrate>> MakeSubstrate(const SubstrateOptions& options);

}  // namespace ingot::sandbox
