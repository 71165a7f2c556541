// A sandbox's files without a name: unlinked files, and files opened with O_TMPFILE. They use disk as long as a process
// holds them, and no walk through folders meets them. This finds the files that the sandbox's processes have open (each
// thread's table) or mapped without a descriptor. Files in memory (memfd, /dev/shm) do not count: the memory limit
// covers them. A file that is only in flight, in a message between two sockets, can be neither seen nor sized; its
// descriptors are counted instead.
//
// If processes come and go during a look, it is repeated up to a few times: one of the looks finds what a chain of
// short-lived processes passes on. If this process may not follow /proc/PID/map_files (CAP_SYS_ADMIN or
// CAP_CHECKPOINT_RESTORE), a mapped file counts with the length of its mappings.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace ingot::sandbox {

// Whose processes to look at.
struct SandboxOwner {
  pid_t first = 0;                          // the sandbox's first process; 0 = unknown: looks at none
  std::optional<uid_t> uid = std::nullopt;  // of the sandbox; empty = this process's own
};

struct DeletedFiles {
  int64_t bytes = 0, files = 0;
  int64_t in_flight = 0;  // descriptors
};

// `folder`: of the sandbox. A file of its file system counts even if that is in memory.
DeletedFiles FindDeletedFiles(const SandboxOwner& sandbox, const char* folder);

}  // namespace ingot::sandbox
