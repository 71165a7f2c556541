// Builds the seccomp(2) program that filters the system calls of a sandbox's commands. It is a deny list because agents
// run many kinds of programs, such as compilers, npm, and git. Denied calls fail with EPERM. If programs have a
// fallback for kernels that lack the call, it instead fails with the error that such a kernel returns. For example,
// clone3 fails with ENOSYS so that the C library falls back to clone, whose flags a filter can check.
#pragma once

#include <string>

#include "base/status.h"

namespace ingot::sandbox {

struct FilterOptions {
  // True = allow internet sockets only for TCP, and allow them to connect only with connect(2), because Landlock checks
  // nothing else. No socket may listen, because listen(2) on an unbound socket binds a free port, which Landlock does
  // not check.
  bool tcp_only = false;
  // True = deny System V shared memory, semaphores, and message queues, as well as POSIX message queues. Used for
  // sandboxes without an IPC namespace, where these objects would outlive the sandbox and belong to the machine.
  bool denies_ipc = false;
  // True = for image builds (sandbox/image/build_sandbox.h), which may mount file systems and create mount and UTS
  // namespaces.
  bool makes_containers = false;
};

// Returns the filter as the bytes of an array of struct sock_filter. It denies new user, mount, and other namespaces,
// mounts, modules, kexec, keys, io_uring, bpf, perf events, userfaultfd, file handles, other processes' descriptors,
// clocks, swap, injecting terminal input (TIOCSTI), and all sockets except Unix, TCP, and UDP. For example, AF_VSOCK
// would reach the hypervisor from any namespace. The rules are in seccomp_rules.h.
absl::StatusOr<std::string> MakeFilter(const FilterOptions& options);

}  // namespace ingot::sandbox
