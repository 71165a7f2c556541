// Runs one program that builds an untrusted image. The author of a Dockerfile controls its build steps. The isolation
// is as strong as at level `full`, but the program is root in a user namespace, because it needs mounts and many
// uids:
//
//   uids        65,536 private uids above 2^31, so files and processes belong to no user on the machine
//   namespaces  user, PID, mount, network, IPC, host name, control groups (launcher/build.h)
//   files       the system's programs (read-only) and a scratch folder, but no other files of the machine
//   network     a loopback interface, with an EgressProxy as the only way out
//   kernel      a system call filter, and control groups that limit total memory and processes
//
// Use from one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "sandbox/egress/egress_proxy.h"
#include "sandbox/groups/control_groups.h"
#include "sandbox/spawn.h"
#include "sandbox/uid_range.h"

namespace ingot::sandbox {

struct BuildProgram {
  std::vector<std::string> argv;       // argv[0] is absolute
  std::vector<std::string> variables;  // "NAME=value"; variables for the proxy are added
  // Absolute path. Contains var/ and tmp/, belongs to first_id(), and appears in the sandbox as kBuildScratch.
  std::string scratch;
  std::vector<std::string> visible;  // additional absolute paths to show, read-only
};

class BuildSandbox {
 public:
  // `store` is the lock folder to use if /run is not writable. Returns FAILED_PRECONDITION, naming what is missing, if
  // this machine or user cannot run builds.
  static absl::StatusOr<BuildSandbox> Make(const std::string& store, const EgressList& hosts);
  // Kills the sandbox's remaining processes and waits until all of them have exited.
  ~BuildSandbox();
  BuildSandbox(BuildSandbox&&) = default;
  BuildSandbox& operator=(BuildSandbox&&) = delete;

  // Returns the host uid and gid of the sandbox's root user.
  uint32_t first_id() const { return first_id_; }
  // Starts the program with `out` as its stdout and stderr. Returns a child process that exits when the program does,
  // with the same exit code. The child is killed when this thread exits. Must be called at most once. Returns
  // FAILED_PRECONDITION, naming the part, if the machine does not allow part of the isolation.
  absl::StatusOr<pid_t> Start(const BuildProgram& program, int out);
  // The proxy that the program uses; null before Start.
  const EgressProxy* proxy() const { return proxy_.get(); }

 private:
  explicit BuildSandbox(EgressList hosts) : hosts_(std::move(hosts)) {}
  absl::Status TakeIds(const std::string& store);
  absl::Status AwaitIsolation(const Fd& socket);

  EgressList hosts_;
  std::unique_ptr<UidRange> ranges_;  // locks the uid range
  uint32_t first_id_ = 0;
  std::unique_ptr<ControlGroups> groups_;
  std::optional<ControlGroup> group_;
  Fd first_;  // pidfd of the sandbox's first process
  std::unique_ptr<EgressProxy> proxy_;
};

}  // namespace ingot::sandbox
