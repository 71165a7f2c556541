// The system calls that commands of a sandbox may not make, as a program for seccomp(2). A deny list: agents run
// compilers, npm and git. Denied calls fail with EPERM, or with the error of a kernel without the feature where
// programs then use something else: clone3 fails with ENOSYS, so that the C library falls back to clone, whose flags a
// filter can see.
#pragma once

#include <string>

#include "base/status.h"

namespace ingot::sandbox {

struct FilterOptions {
  // True: internet sockets are TCP only, and connect only through connect(2), since Landlock sees nothing else. No
  // socket listens: listen(2) takes a free port for a socket without one, which Landlock does not see either.
  bool tcp_only = false;
  // True: no shared memory, semaphores or message queues of System V, and no POSIX message queues. For sandboxes
  // without an IPC namespace, where these objects outlive the sandbox and belong to the machine.
  bool denies_ipc = false;
  // True: of a build of an image (sandbox/image/build_sandbox.h), which mounts, and makes mount and host-name
  // namespaces, where it has the right to.
  bool makes_containers = false;
};

// Denied: new user, mount and other namespaces, mounts, modules, kexec, keys, io_uring, bpf, perf events, userfaultfd,
// handles of files, descriptors of other processes, clocks, swap, typing into a terminal (TIOCSTI), and sockets other
// than unix, TCP and UDP: AF_VSOCK reaches the hypervisor from any namespace. seccomp_rules.h has the rules. Returns
// the bytes of struct sock_filter.
absl::StatusOr<std::string> MakeFilter(const FilterOptions& options);

}  // namespace ingot::sandbox
