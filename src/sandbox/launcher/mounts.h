// The calls on mounts that the launcher's files share. Each returns 0 or errno, or a descriptor; -1: errno says why.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace ingot::sandbox::launcher {

inline constexpr unsigned long kBind = 4096, kRecursive = 16384, kNoSuid = 2, kNoDev = 4, kNoExec = 8;

// A copy of the mounts at `path`, which is attached nowhere. `recursive`: with those below.
int CloneTree(const char* path, bool recursive);

// Attaches a copy at `target`, a path below the current folder.
int Place(int tree, const char* target);

// Adds MOUNT_ATTR_* flags.
int SetAttributes(int fd, uint64_t attributes, bool recursive);

// Makes the folders above `path`, and `path` itself as a folder or an empty file. It may already exist.
int MakePlace(const char* path, bool is_folder);

// A user namespace with one id: `inside`, seen outside as `outside`.
int UserNamespaceOf(uint32_t inside, uint32_t outside);

// Shows the owners of the files in a copy as the ids that `user_namespace` maps them to. Owners without a mapping
// become nobody: their files can be read and executed as others may, but neither written nor connected to. EINVAL: a
// file system cannot.
int MapOwners(int tree, int user_namespace, bool recursive);

}  // namespace ingot::sandbox::launcher
