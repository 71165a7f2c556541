// Unix sockets for one user of the machine. A path may be longer than a socket address allows.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/fd.h"
#include "base/status.h"

namespace ingot::http {

// A socket file's path for a socket address: a path that is too long goes through its folder's descriptor.
struct SocketName {
  base::Fd folder;
  std::string path;  // valid while `folder` is open
};
// UNAVAILABLE: no such folder.
absl::StatusOr<SocketName> NameOfSocket(const std::string& path);

// Makes the socket file `path` with mode 0600 and listens. Returns the descriptor, which the caller owns. Replaces a
// socket file without a listener, such as a killed process leaves. UNAVAILABLE: a process listens there, the file is
// not a socket, or the system call failed; the error names `path`.
absl::StatusOr<int> ListenUnix(const std::string& path);

// Connects to a socket file, and returns the descriptor, which the caller owns. UNAVAILABLE: nothing listens there.
// DEADLINE_EXCEEDED: the listener has accepted no connection for a second.
absl::StatusOr<int> ConnectUnix(const std::string& path);

// The process that listens at the other end of a ConnectUnix connection; 0 = unknown.
pid_t ListenerOf(int fd);

}  // namespace ingot::http
