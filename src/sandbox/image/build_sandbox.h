// A BuildSandbox runs one program that builds an image for a stranger: the steps of a Dockerfile are its author's. The
// wall is as strong as the one around sandboxes at level `full`, but the program is root of a user namespace, since it
// mounts and has many uids:
//
//   uids        65,536 of its own, above 2^31: files and processes belong to no user of the machine
//   namespaces  user, PID, mount, network, IPC, host name, control groups (launcher/build.h)
//   files       the system's programs, read-only; a scratch folder; no other file of the machine
//   network     a loopback interface with an EgressProxy, the only way out
//   kernel      a filter of system calls; totals of memory and processes by control groups
//
// Used by one thread.
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
  std::vector<std::string> variables;  // "NAME=value"; the proxy's are added
  std::string scratch;                 // absolute; has var/ and tmp/, and belongs to first_id(). Seen as kBuildScratch
  std::vector<std::string> visible;    // more absolute paths, read-only
};

class BuildSandbox {
 public:
  // FAILED_PRECONDITION names what this machine or user lacks. `store`: a folder for locks if /run takes none.
  static absl::StatusOr<BuildSandbox> Make(const std::string& store, const EgressList& hosts);
  // Waits until every process inside is gone, and kills any that are left.
  ~BuildSandbox();
  BuildSandbox(BuildSandbox&&) = default;
  BuildSandbox& operator=(BuildSandbox&&) = delete;

  // The uid and gid, outside, of the sandbox's root.
  uint32_t first_id() const { return first_id_; }
  // Starts the program once, with `out` as its stdout and stderr, and returns a child process that ends with it and has
  // its exit code. The child ends with this thread. FAILED_PRECONDITION: the machine does not allow a part of the wall;
  // names it.
  absl::StatusOr<pid_t> Start(const BuildProgram& program, int out);
  // The way out of the program; null before its start.
  const EgressProxy* proxy() const { return proxy_.get(); }

 private:
  explicit BuildSandbox(EgressList hosts) : hosts_(std::move(hosts)) {}
  absl::Status TakeIds(const std::string& store);
  absl::Status AwaitWall(const Fd& socket);

  EgressList hosts_;
  std::unique_ptr<UidRange> ranges_;  // holds the lock of the range
  uint32_t first_id_ = 0;
  std::unique_ptr<ControlGroups> groups_;
  std::optional<ControlGroup> group_;
  Fd first_;  // a pidfd of the sandbox's first process
  std::unique_ptr<EgressProxy> proxy_;
};

}  // namespace ingot::sandbox
