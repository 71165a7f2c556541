// Unix sockets for one user of the machine. A path may be longer than a socket's address.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/fd.h"
#include "base/status.h"

namespace ingot::http {

// The path of a socket file as a socket's address has it: a longer one is named by its folder's descriptor.
struct SocketName {
  base::Fd folder;
  std::string path;  // while `folder` is open
};
// UNAVAILABLE: there is no such folder.
absl::StatusOr<SocketName> NameOfSocket(const std::string& path);

// Makes the socket file `path` of mode 0600 and listens. Returns the descriptor, which the caller owns. A socket file on
// which nobody listens, left by a process that was killed, is replaced. UNAVAILABLE: somebody listens there, the file is
// no socket, or the system refuses; the error names `path`.
absl::StatusOr<int> ListenUnix(const std::string& path);

// Connects to a socket file, and returns the descriptor, which the caller owns. UNAVAILABLE: nobody listens there.
// DEADLINE_EXCEEDED: the listener has taken none of its connections for a second.
absl::StatusOr<int> ConnectUnix(const std::string& path);

// The process that listens at the other end of a connection of ConnectUnix; 0 = the system does not tell.
pid_t ListenerOf(int fd);

}  // namespace ingot::http
