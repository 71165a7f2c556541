// Finds a sandbox's unnamed files: unlinked files, and files opened with O_TMPFILE. They use disk space while a process
// has them open, but are not visible in any folder. Finds files that the sandbox's processes have open (in any thread's
// descriptor table) or have mapped without a descriptor. In-memory files (memfd, /dev/shm) are not counted because the
// memory limit covers them. A file whose descriptor is only in a message between two sockets cannot be seen or
// measured. Such descriptors are counted instead.
//
// If processes start or exit during the search, it is repeated a few times, because a chain of short-lived processes
// could pass a file along. If this process may not follow /proc/PID/map_files (CAP_SYS_ADMIN or
// CAP_CHECKPOINT_RESTORE), a mapped file counts as the length of its mappings.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace ingot::sandbox {

// The processes to search.
struct SandboxOwner {
  pid_t first = 0;                          // the sandbox's first process; 0 = unknown, so nothing is searched
  std::optional<uid_t> uid = std::nullopt;  // the sandbox's uid; nullopt = this process's uid
};

struct DeletedFiles {
  int64_t bytes = 0, files = 0;
  int64_t in_flight = 0;  // number of descriptors in flight
};

// `folder` is the sandbox's folder. Files on the same file system count even if that file system is in memory.
DeletedFiles FindDeletedFiles(const SandboxOwner& sandbox, const char* folder);

}  // namespace ingot::sandbox
