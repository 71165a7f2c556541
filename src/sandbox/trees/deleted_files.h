// Files of a sandbox without a name: unlinked ones, and files opened with O_TMPFILE. They use disk as long as a process holds them, and no walk
// through folders meets them. Found are those that the sandbox's processes have open (each thread's table) or mapped without a
// descriptor. Files in memory (memfd, /dev/shm) do not count: they are the memory limit's. A file that is only in flight, in a
// message between two sockets, can be neither seen nor sized; the descriptors in flight are counted in its place.
//
// Processes that come and go while they are looked at are looked for again, up to a few times: what a chain of short-lived ones
// passes on is found by one of the looks. Where this process may not follow /proc/PID/map_files (CAP_SYS_ADMIN or
// CAP_CHECKPOINT_RESTORE), a mapped file counts with the length of its mappings.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace ingot::sandbox {

// Whose processes are looked at.
struct SandboxOwner {
  pid_t first = 0;                          // the sandbox's first process; 0 = unknown: nobody is looked at
  std::optional<uid_t> uid = std::nullopt;  // of the sandbox; empty = this process's own
};

struct DeletedFiles {
  int64_t bytes = 0, files = 0;
  int64_t in_flight = 0;  // descriptors
};

// `folder`: of the sandbox. A file of its file system counts even if that is in memory.
DeletedFiles FindDeletedFiles(const SandboxOwner& sandbox, const char* folder);

}  // namespace ingot::sandbox
