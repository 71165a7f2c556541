// Runs agents in sandboxes. A Substrate prepares a sandbox for each episode, and all commands of the episode run there:
// setup, agent, verifier, cleanup. A Sandbox owns its folders and its processes.
//
//   Substrate::Prepare ──▶ Sandbox ──WriteFile──▶ Run(setup) ──▶ Run(agent) ──ReadFile──▶ Run(verifier) ──▶ ~Sandbox
//                           │ work/ home/ tmp/      │                                                      │
//                           └ seen by commands as   └ ends together with every process that              └ removes
//                             work(), home(), tmp()   it started, including daemons                        everything
//
// An ISOLATION LEVEL indicates how strongly a sandbox is isolated from everything else. From strongest to weakest:
//
//   full         namespaces, and limits on total memory, processes, and CPU (control groups)
//   namespaces   a separate root folder, network, and PIDs, and a system call filter (seccomp)
//   landlock     no namespaces, but Landlock, seccomp, and limits
//   process      a process tree that ends with its command. Also a separate uid, PID namespace, and mount namespace if
//                the machine allows them
//
// A probe at startup determines the ProbeResult. docs/guide/sandbox.md lists the attacks that each level prevents.
//
// Implementations must follow these rules:
//   1. Run returns after the command's last process has exited, regardless of which sessions and groups it created.
//   2. If the process that owns the Substrate dies, even by SIGKILL, all sandboxes' commands end.
//   3. No ancestor of an agent's process holds a key that belongs to the run or another episode.
//   4. Paths are passed and returned as commands in the sandbox see them. When files in its folders are accessed
//      from the host, links are never followed.
//   5. A substrate failure is reported as a Status, never as an Outcome, so the episode is retried.
//
// Threads: Prepare is thread safe. A Sandbox is used by one thread at a time, except for TakeSnapshot and MemoryKills.
// Run blocks for at most the command's time limit and grace period, plus the moment that killed processes need to exit.
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

// Ordered from weakest to strongest, so levels can be compared.
enum class IsolationLevel { kProcess, kLandlock, kNamespaces, kFull };

std::string_view IsolationLevelName(IsolationLevel isolation);

// The isolation that this machine allows. Determined once at startup by trying each part.
struct ProbeResult {
  IsolationLevel isolation = IsolationLevel::kProcess;
  bool own_uid = false;          // each sandbox has a uid that it does not share with Ingot or other sandboxes
  bool user_namespace = false;   // each sandbox has its own user namespace without capabilities
  bool pid_namespace = false;    // a sandbox can see and signal only its own processes
  bool mount_namespace = false;  // hidden paths are hidden regardless of their mode
  bool private_proc = false;     // /proc shows only the sandbox's processes
  bool root_folder = false;      // a sandbox sees only programs and its own folders
  bool own_network = false;      // a sandbox can reach only the gateway
  bool seccomp = false;          // system calls are filtered
  int landlock = 0;              // the kernel's Landlock version, if it provides the isolation; 0 = not used
  int groups = 0;                // cgroup version that limits sandbox totals; 0 = none
  int freezer = 0;               // cgroup version that freezes commands for snapshots; 0 = none
  bool layers = false;           // true = snapshots and forks use overlayfs; false = they are copies
  int64_t first_uid = 0;         // with own_uid, the first uid of the sandboxes
  // Parts that the machine does not allow, with the reasons: "PID and mount namespaces (clone: Operation not
  // permitted)".
  std::vector<std::string> rejected;

  // Returns true if nothing prevents an agent from affecting Ingot's own processes.
  bool is_open() const { return !own_uid && !pid_namespace && landlock == 0; }
  // Returns a line to print at startup, such as "isolation level process: a uid per sandbox (from 1900000000), ..; not
  // granted: .. (reason)".
  std::string Describe() const;
  // Returns JSON for an episode's record, such as {"isolation":"process","own_uid":true,..}.
  std::string Json() const;
};

// A program named in a recipe. Sandboxes must be able to access it.
struct Program {
  std::string name;               // name for errors, such as "agents.recipes 'solver' command"
  std::vector<std::string> argv;  // argv[0] as in Command; other arguments are checked if they are absolute paths
  std::string path;               // PATH of its environment; empty = the default folders
};

// Bind declares each key with its meaning, bounds, and choices.
struct SubstrateOptions {
  // Parent of the sandboxes' folders, on a local disk. Created if missing.
  std::string work_root;
  // "none" and "any" require nothing. For other values, startup fails if the machine or this build provides less, or if
  // agents would have the same uid as Ingot's processes.
  std::string require = "any";
  // "shared" = agents run as Ingot's uid and keep its capabilities. If "auto" falls back to a shared uid, agents lose
  // the capabilities, and the fallback is reported at startup.
  std::string agent_uid = "auto";
  std::string isolation = "auto";  // `require` can raise it
  std::string network = "none";
  std::vector<std::string> visible;  // used with a root folder or Landlock
  // Folder of the image store (sandbox/image/image.h). Created if missing. Empty = sandboxes cannot use stored images.
  std::string images;
  // Limits on a sandbox's total usage, enforced at isolation level `full`; 0 = no limit. At lower levels, a MemoryWatch
  // enforces `memory_bytes`, and `processes` is enforced if each sandbox has its own uid or user namespace.
  GroupLimits totals = {.memory_bytes = int64_t{4} << 30, .processes = 1024, .cpus = 0};
  DiskLimits disk = {.bytes = int64_t{16} << 30, .files = 2'000'000};
  // Number of sandboxes to open in advance, of the most recently requested kinds. -1 = chosen by the caller;
  // MakeSubstrate treats it as 0.
  int32_t pool = -1;
  int64_t uid_base = 1'900'000'000;  // each sandbox gets the next uid not in use by another run on this machine
  // Files and folders that no sandbox may see, such as tasks, the runs folder, and keys. Missing paths are skipped.
  std::vector<std::string> hidden;
  std::vector<Program> programs;

  absl::Status Validate() const;
};

void Bind(base::Schema& schema, SubstrateOptions& options);

// A sandbox's files at one point in time: work/, home/, and, for an image, its root folder. Immutable. The files are
// removed when the last sandbox or snapshot that uses them is destroyed. Thread safe.
class Snapshot {
 public:
  virtual ~Snapshot() = default;
  // Writes work/ and home/ to `sink` as a tar archive (sandbox/trees/snapshot_tar.h). With an image, the archive also
  // contains root/ with the files that differ from the image. Blocks while the sink does.
  virtual absl::Status WriteTar(const ByteSink& sink) const = 0;
};

// A sandbox folder that commands also see at another path.
struct BindMount {
  std::string folder;  // "work", or the name of a folder next to work/, which is created empty
  std::string at;      // absolute path
  bool operator==(const BindMount&) const = default;
};

struct SandboxOptions {
  // Root folder of an image (sandbox/image/image.h). Commands run as root in the sandbox. Empty = use the machine's
  // programs. Requires at least isolation level `namespaces`.
  std::string image;
  // Without an image, allowed only at /app, /logs, /tests, /solution, and /home/user. Bind mounts require at least
  // isolation level `namespaces`.
  std::vector<BindMount> binds;
  // Snapshot to fork. The sandbox starts with its files and image. Null = start with empty folders.
  std::shared_ptr<const Snapshot> from;
  // For forks with an image. True = the root folder is the unchanged image plus the snapshot's changes in `kept_folder`
  // (an absolute path; empty = no changes). False = it includes all of the snapshot's changes.
  bool is_pristine = false;
  std::string kept_folder;
  // True = prepare for cheap snapshots of this sandbox. False = its snapshots are copies.
  bool takes_snapshots = false;
  // Limits for this sandbox that override SubstrateOptions::totals; 0 = use the limit there.
  GroupLimits totals;
  // Disk limits for this sandbox that override SubstrateOptions::disk; 0 = use the limit there.
  DiskLimits disk;
};

// A command that runs in parallel with the next command and ends with it.
struct Companion {
  Fd input;   // other end of its stdin; reports POLLERR once all of the command's processes have closed theirs
  Fd output;  // unnamed file with its stdout and stderr so far
};

class Sandbox {
 public:
  // Ends all running processes and removes the folders.
  virtual ~Sandbox() = default;

  // Return paths as commands in the sandbox see them. work() is the working directory. home() is HOME and is initially
  // empty. tmp() is TMPDIR.
  virtual const std::string& work() const = 0;
  virtual const std::string& home() const = 0;
  virtual const std::string& tmp() const = 0;
  // Returns the URL that commands in the sandbox use to reach the gateway. `url` is the gateway's own URL.
  virtual std::string InsideUrl(const std::string& url) const = 0;

  // Writes work/`relative`. Creates parent folders and replaces anything an agent put there. If the content begins with
  // "#!", the file is executable. Returns INVALID_ARGUMENT if the path leads outside work/.
  virtual absl::Status WriteFile(const std::string& relative, std::string_view content) = 0;

  // Reads work/`relative`. Returns NOT_FOUND if it does not exist, OUT_OF_RANGE if it is larger than `limit_bytes`, and
  // INVALID_ARGUMENT if it is not a regular file.
  virtual absl::StatusOr<std::string> ReadFile(const std::string& relative, int64_t limit_bytes) = 0;

  // Creates an empty folder next to work/ and returns its path in the sandbox. No sandbox process has used the folder
  // before.
  virtual absl::StatusOr<std::string> AddFolder(const std::string& name) = 0;

  // Returns the sandbox's listening socket, which InsideUrl points to. The caller accepts connections on it. Returns an
  // invalid descriptor if the sandbox shares the machine's network or the socket was already taken.
  virtual Fd TakeListener() = 0;

  // Reads a file in a BindMount's folder. Returns the same errors as ReadFile.
  virtual absl::StatusOr<std::string> ReadBound(const std::string& folder, const std::string& relative,
                                                int64_t limit_bytes) = 0;
  // Empties a BindMount's folder and copies the files in `source`, a host folder, into it. Commands may change all of
  // the files and execute those that begin with "#!".
  virtual absl::Status FillBound(const std::string& folder, const std::string& source) = 0;
  // Empties a BindMount's folder and creates one folder in it. Only the sandbox can access either.
  virtual absl::Status ClearBound(const std::string& folder, const std::string& inner) = 0;

  // Saves the current files. May be called while Run is active on another thread: the running command is frozen and
  // then resumes. Between commands, snapshots work on every machine. Returns FAILED_PRECONDITION if a command or
  // companion is running and ProbeResult::freezer is 0. Returns UNAVAILABLE if the command was ended during the
  // snapshot or could not be frozen.
  virtual absl::StatusOr<std::shared_ptr<const Snapshot>> TakeSnapshot() = 0;

  // Runs one command in the sandbox. A command that ran has an Outcome, regardless of how it ended. An error means that
  // the command did not run or that the substrate failed:
  // - NOT_FOUND: the program or folder does not exist.
  // - PERMISSION_DENIED: the program or folder is not accessible.
  // - INVALID_ARGUMENT: argv is empty, contains a NUL byte, or is too large, or the file is not executable.
  // - RESOURCE_EXHAUSTED: no process, descriptor, or memory is available.
  // - CANCELLED: `cancel` was canceled.
  // - UNAVAILABLE: the sandbox's first process died.
  //
  // The error is a sandbox fault (sandbox/sandbox_fault.h) if an earlier command may have caused it. `cancel` may be
  // null.
  virtual absl::StatusOr<Outcome> Run(const Command& command, const Limits& limits, const Cancellation* cancel) = 0;

  // Returns how many times the kernel killed a process because the sandbox ran out of memory, or 0 if the kernel does
  // not report it. May be called during Run.
  virtual int64_t MemoryKills() const { return 0; }

  // Starts a command that runs until the next Run has ended. Its output counts toward the sandbox's disk limit. Returns
  // the same errors as Run.
  virtual absl::StatusOr<Companion> StartCompanion(const Command& command, const Limits& limits) = 0;

  // Returns a TCP socket in the sandbox's network, or in the machine's network if it is shared. The socket is neither
  // bound nor connected. The caller listens on it for commands, or connects it to a companion. Must not be called while
  // a command runs. Returns UNAVAILABLE on failure.
  virtual absl::StatusOr<Fd> NewSocket() = 0;

  // Keeps the folders for inspection as kept-`name` under the work root, and returns the host path. `beside` maps the
  // names of files to add next to work/ to their contents. Afterward, nothing can run in this sandbox, and no later
  // sandbox can access the folder.
  virtual absl::StatusOr<std::string> KeepFolders(const std::string& name,
                                                  const std::map<std::string, std::string>& beside) = 0;
};

class Substrate {
 public:
  virtual ~Substrate() = default;

  virtual const ProbeResult& probe_result() const = 0;
  // Returns the options with which this object was created.
  virtual const SubstrateOptions& options() const = 0;

  // Returns UNAVAILABLE or RESOURCE_EXHAUSTED if no folder, uid, or process is available; a retry may succeed. Returns
  // FAILED_PRECONDITION if this isolation level does not support images, and INVALID_ARGUMENT if the image does not
  // exist.
  virtual absl::StatusOr<std::unique_ptr<Sandbox>> Prepare(const SandboxOptions& options) = 0;
  absl::StatusOr<std::unique_ptr<Sandbox>> Prepare() { return Prepare(SandboxOptions()); }
};

// Probes the machine and returns the strongest substrate. Returns FAILED_PRECONDITION, with the probe's results, if its
// isolation is weaker than `require` or it cannot provide the separate uid that agent_uid "own" requires. Removes
// folders that killed runs left in work_root.
absl::StatusOr<std::unique_ptr<Substrate>> MakeSubstrate(const SubstrateOptions& options);

}  // namespace ingot::sandbox
