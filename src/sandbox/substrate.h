// A Substrate is the ground that agents run on. It prepares a sandbox for each episode, and every command of the
// episode runs in that sandbox: set-up, agent, verifier, clean-up. The Sandbox owns its folders and its processes.
//
//   Substrate::Prepare ──▶ Sandbox ──WriteFile──▶ Run(set-up) ──▶ Run(agent) ──ReadFile──▶ Run(verifier) ──▶ ~Sandbox
//                           │ work/ home/ tmp/        │                                                    │
//                           └ seen inside as work(),  └ ends with every process that it started,           └ nothing of
//                             home(), tmp()             daemons too                                          it is left
//
// An ISOLATION LEVEL names the strength of the wall between a sandbox and everything else, strongest first:
//
//   full         namespaces, and totals of memory, processes and CPU (control groups)
//   namespaces   its own root folder, network and PIDs, and a filter of system calls (seccomp)
//   landlock     no namespaces: Landlock, seccomp and limits
//   process      a process tree that ends with its command, and as much of a uid, PID and mount namespaces as the
//                machine allows
//
// A probe at the start finds the ProbeResult; docs/guide/sandbox.md has the table of attacks.
//
// Obligations of an implementation:
//   1. Run returns after the last process of its command is gone, whatever sessions and groups these processes made.
//   2. If the owner of the Substrate dies, by SIGKILL too, the commands of all sandboxes end.
//   3. No parent of an agent's process holds a key: neither the run's nor another episode's.
//   4. Paths are passed and returned as commands inside see them. Only work/ is read and written from outside, and no
//      link is followed there.
//   5. A failure of the substrate itself is a Status, never an Outcome: the episode is tried again.
//
// Threads: Prepare is thread safe. A Sandbox is used by one thread at a time, but for TakeSnapshot
// and MemoryKills. Run blocks for at
// most the command's time limit and grace, plus the moment that killed processes need to go away.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "sandbox/disk_watch.h"
#include "sandbox/groups/control_groups.h"
#include "sandbox/process.h"
#include "sandbox/spawn.h"
#include "sandbox/trees/snapshot_tar.h"

namespace ingot::base {
class Schema;
}

namespace ingot::sandbox {

// Weakest first, so that isolation levels compare.
enum class IsolationLevel { kProcess, kLandlock, kNamespaces, kFull };

std::string_view IsolationLevelName(IsolationLevel isolation);

// A ProbeResult says which parts of the wall this machine allows. It is found once, at the start, by trying them.
struct ProbeResult {
  IsolationLevel isolation = IsolationLevel::kProcess;
  bool own_uid = false;          // a sandbox has a uid that neither Ingot's processes nor another sandbox have
  bool user_namespace = false;   // a sandbox is in its own user namespace, without capabilities
  bool pid_namespace = false;    // a sandbox sees and signals only its own processes
  bool mount_namespace = false;  // hidden paths are hidden, whatever their mode
  bool private_proc = false;     // /proc shows the sandbox's own processes
  bool root_folder = false;      // a sandbox sees programs and its own folders, and no other file of the machine
  bool own_network = false;      // a sandbox reaches the gateway and nothing else
  bool seccomp = false;          // a filter of system calls
  int landlock = 0;              // version of the kernel's Landlock if it is the wall, otherwise 0
  int groups = 0;                // version of the control groups that hold a sandbox's totals; 0 = none
  int freezer = 0;               // version of the control groups that freeze a command for a snapshot; 0 = none
  bool layers = false;           // snapshots and forks by overlayfs, not by copies
  int64_t first_uid = 0;         // own_uid: the sandboxes' uids begin here
  // Parts that the machine does not allow, each with the reason: "PID and mount namespaces (clone: Operation not
  // permitted)".
  std::vector<std::string> rejected;

  // True: nothing but good manners keeps an agent from Ingot's own processes.
  bool is_open() const { return !own_uid && !pid_namespace && landlock == 0; }
  // One line for the start of a run: "isolation level process: a uid per sandbox (from 1900000000), ..; not granted: ..
  // (reason)".
  std::string Describe() const;
  // For the record of an episode: {"isolation":"process","own_uid":true,..}.
  std::string Json() const;
};

// A program that a recipe names. Sandboxes must be able to reach it.
struct Program {
  std::string name;               // for errors: "agents.recipes 'solver' command"
  std::vector<std::string> argv;  // argv[0] as in Command; other arguments count if they are absolute paths
  std::string path;               // PATH of its environment; empty = the usual folders
};

// Bind declares each key with its meaning, bounds and choices.
struct SubstrateOptions {
  // The parent of the sandboxes' folders, on a local disk; made if missing.
  std::string work_root;
  // Above "none" and "any", which require nothing here, the start fails if the machine or this build gives less, or if
  // agents would share the uid of Ingot's processes.
  std::string require = "any";
  // "shared" = agents have Ingot's uid and keep its capabilities. Where "auto" is shared, they lose its capabilities,
  // which the start reports.
  std::string agent_uid = "auto";
  std::string isolation = "auto";  // `require` raises it
  std::string network = "none";
  std::vector<std::string> visible;  // for a root folder or Landlock
  // The folder of images (sandbox/image/image.h); made if missing. Empty = sandboxes have none from there.
  std::string images;
  // Totals of a sandbox, enforced at isolation level `full`; 0 = no limit. Below it, a MemoryWatch enforces
  // `memory_bytes`, and `processes` is enforced with a uid per sandbox or user namespaces.
  GroupLimits totals = {.memory_bytes = int64_t{4} << 30, .processes = 1024, .cpus = 0};
  DiskLimits disk = {.bytes = int64_t{16} << 30, .files = 2'000'000};
  // Sandboxes are opened ahead of the kinds asked for last. -1 = the owner decides; MakeSubstrate takes it as none.
  int32_t pool = -1;
  int64_t uid_base = 1'900'000'000;  // each sandbox takes the next uid that no other run on this machine has
  // Files and folders that no sandbox may see: tasks, the runs' folder, keys. Missing ones are skipped.
  std::vector<std::string> hidden;
  std::vector<Program> programs;

  absl::Status Validate() const;
};

void Bind(base::Schema& schema, SubstrateOptions& options);

// The files of a sandbox at one moment: work/ and home/, and the root folder of an image. It never changes, and is
// removed with the last sandbox or snapshot that uses it. Thread safe.
class Snapshot {
 public:
  virtual ~Snapshot() = default;
  // Gives `sink` the files as a tar archive of work/ and home/ (sandbox/trees/snapshot_tar.h). With an image, the
  // archive also has root/, with the files that differ from the image's. Blocks as long as the sink does.
  virtual absl::Status WriteTar(const ByteSink& sink) const = 0;
};

// A folder of the sandbox that its commands also see at another path.
struct BindMount {
  std::string folder;  // of the sandbox, next to work/; made, and empty at first. Or "work"
  std::string at;      // absolute
  bool operator==(const BindMount&) const = default;
};

struct SandboxOptions {
  // The root folder of an image (sandbox/image/image.h). Its commands see themselves as root. Empty = the machine's
  // programs. Needs the isolation level `namespaces`.
  std::string image;
  // With an image, or one of /app, /logs, /tests, /solution and /home/user. Need the isolation level `namespaces`.
  std::vector<BindMount> binds;
  // A fork: the sandbox begins with the snapshot's files, and with its image. Null = with empty folders.
  std::shared_ptr<const Snapshot> from;
  // For a fork with an image: true = the root folder is the image as it was, with only the snapshot's changes in
  // `kept_folder` (absolute; empty = none). False = with all of its changes.
  bool is_pristine = false;
  std::string kept_folder;
  // True: snapshots of this sandbox will be taken. If false, they are copies.
  bool takes_snapshots = false;
  // Limits of this sandbox, instead of SubstrateOptions::totals; 0 = keep that total.
  GroupLimits totals;
  // The same, instead of SubstrateOptions::disk.
  DiskLimits disk;
};

// A command that runs next to the next command and ends with it.
struct Companion {
  Fd input;   // its stdin's other end, which has POLLERR once no process of the command holds it
  Fd output;  // a file without a name: its stdout and stderr so far
};

class Sandbox {
 public:
  // Ends what still runs and removes the folders.
  virtual ~Sandbox() = default;

  // As commands inside see them. work() is the working folder, home() is HOME and empty at first, tmp() is TMPDIR.
  virtual const std::string& work() const = 0;
  virtual const std::string& home() const = 0;
  virtual const std::string& tmp() const = 0;
  // The address under which commands inside reach the gateway, whose own address is `url`.
  virtual std::string InsideUrl(const std::string& url) const = 0;

  // Writes work/`relative` and makes the folders on the way; replaces anything an agent put there. INVALID_ARGUMENT:
  // the path leaves work/. A text that begins with "#!" becomes executable.
  virtual absl::Status WriteFile(const std::string& relative, std::string_view content) = 0;

  // Reads work/`relative`. NOT_FOUND; OUT_OF_RANGE above `limit_bytes`; INVALID_ARGUMENT: no regular file.
  virtual absl::StatusOr<std::string> ReadFile(const std::string& relative, int64_t limit_bytes) = 0;

  // Makes an empty folder next to work/, which no process of the sandbox has used, and returns its path inside.
  virtual absl::StatusOr<std::string> AddFolder(const std::string& name) = 0;

  // The listening socket inside the sandbox that commands reach at InsideUrl; the caller accepts on it. Invalid: the
  // sandbox shares the machine's network, or the socket was taken before.
  virtual Fd TakeListener() = 0;

  // Reads a file of a BindMount's folder; as ReadFile.
  virtual absl::StatusOr<std::string> ReadBound(const std::string& folder, const std::string& relative,
                                                int64_t limit_bytes) = 0;
  // Copies the files of `source`, a folder outside, into a BindMount's folder, which is emptied first. Commands may change
  // all of them, and execute those that begin with "#!".
  virtual absl::Status FillBound(const std::string& folder, const std::string& source) = 0;
  // Empties a BindMount's folder and makes one folder in it. Only the sandbox can enter them.
  virtual absl::Status ClearBound(const std::string& folder, const std::string& inner) = 0;

  // Keeps the files as they are now. Thread safe with Run: a running command is frozen meanwhile, then resumes. Between
  // commands it needs no support from the machine. FAILED_PRECONDITION: a command or companion runs, and
  // ProbeResult::freezer is 0. UNAVAILABLE: the command was ended meanwhile, or did not freeze.
  virtual absl::StatusOr<std::shared_ptr<const Snapshot>> TakeSnapshot() = 0;

  // Runs one command in the sandbox. An error means that it did not run, or that the substrate broke under it:
  // NOT_FOUND (no such program or folder), PERMISSION_DENIED, INVALID_ARGUMENT (empty argv, a NUL byte, too large, not
  // an executable file), RESOURCE_EXHAUSTED (no process, descriptor or memory left), CANCELLED, UNAVAILABLE (the
  // sandbox's first process died). It is a sandbox fault (sandbox/sandbox_fault.h) if an earlier command can have
  // caused it. A command that ran has an Outcome, however it ended. `cancel` may be null.
  virtual absl::StatusOr<Outcome> Run(const Command& command, const Limits& limits, const Cancellation* cancel) = 0;

  // How often the kernel killed a process of the sandbox because its memory was used up; 0 if the kernel does not report
  // it. Thread safe with Run.
  virtual int64_t MemoryKills() const { return 0; }

  // Starts a command that runs until the next Run has ended. Its output counts as disk of the sandbox. Errors as for
  // Run.
  virtual absl::StatusOr<Companion> StartCompanion(const Command& command, const Limits& limits) = 0;

  // A TCP socket of the sandbox's network, or of the machine's if it is shared, neither bound nor connected: the caller
  // listens on it for commands, or connects it to a companion. Not while a command runs. UNAVAILABLE.
  virtual absl::StatusOr<Fd> NewSocket() = 0;

  // Keeps the folders for people, as kept-`name` under the work root, and returns the path outside. `beside`: files
  // next to work/, name to content. Nothing runs in the sandbox afterwards. No later sandbox can enter the folder.
  virtual absl::StatusOr<std::string> KeepFolders(const std::string& name,
                                                  const std::map<std::string, std::string>& beside) = 0;
};

class Substrate {
 public:
  virtual ~Substrate() = default;

  virtual const ProbeResult& probe_result() const = 0;
  // As it was made.
  virtual const SubstrateOptions& options() const = 0;

  // UNAVAILABLE, RESOURCE_EXHAUSTED: no folder, uid or process; worth another try.
  // FAILED_PRECONDITION: this isolation level has no images; INVALID_ARGUMENT: no such image.
  virtual absl::StatusOr<std::unique_ptr<Sandbox>> Prepare(const SandboxOptions& options) = 0;
  absl::StatusOr<std::unique_ptr<Sandbox>> Prepare() { return Prepare(SandboxOptions()); }
};

// Probes the machine and returns its strongest substrate. FAILED_PRECONDITION: it is weaker than `require`, or lacks
// the uid that agent_uid "own" asks for; the message has the probe's findings. Removes folders that killed runs left in
// work_root.
absl::StatusOr<std::unique_ptr<Substrate>> MakeSubstrate(const SubstrateOptions& options);

}  // namespace ingot::sandbox
