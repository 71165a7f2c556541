// Creates Unix sockets that only one user can access. Supports paths that are longer than a socket address allows.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/fd.h"
#include "base/status.h"

namespace ingot::http {

// A socket file's path in a form that fits in a socket address. A long path is given relative to an open folder
// descriptor.
struct SocketName {
  base::Fd folder;
  std::string path;  // valid while `folder` is open
};
// Returns UNAVAILABLE if the folder does not exist.
absl::StatusOr<SocketName> NameOfSocket(const std::string& path);

// Creates the socket file `path` with mode 0600 and listens on it. The caller owns the returned descriptor. Replaces a
// stale socket file that a killed process left. Returns UNAVAILABLE if a process listens there, the file is not a
// socket, or the system call failed. The error contains `path`.
absl::StatusOr<int> ListenUnix(const std::string& path);

// Connects to a socket file. The caller owns the returned descriptor. Returns UNAVAILABLE if nothing listens there, or
// DEADLINE_EXCEEDED if the listener has not accepted a connection for a second.
absl::StatusOr<int> ConnectUnix(const std::string& path);

// Returns the process that is listening at the other end of a ConnectUnix connection, or 0 if it is unknown.
pid_t ListenerOf(int fd);

}  // namespace ingot::http
