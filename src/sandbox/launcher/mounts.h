// Wraps mount system calls for the launcher. Functions return 0 or errno, or a descriptor or -1 (errno is set).
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace ingot::sandbox::launcher {

inline constexpr unsigned long kBind = 4096, kRecursive = 16384, kNoSuid = 2, kNoDev = 4, kNoExec = 8;

// Returns a detached copy of the mount at `path`. `recursive` includes the mounts below it.
int CloneTree(const char* path, bool recursive);

// Attaches a copy at `target`, which is relative to the current directory.
int Place(int tree, const char* target);

// Adds MOUNT_ATTR_* flags.
int SetAttributes(int fd, uint64_t attributes, bool recursive);

// Creates `path` as a folder or an empty file, and its parent folders. It may already exist.
int MakePlace(const char* path, bool is_folder);

// Creates a user namespace with a single id, `inside`, which maps to `outside` in the parent.
int UserNamespaceOf(uint32_t inside, uint32_t outside);

// Maps the owners of files in a copy with `user_namespace`. Files with unmapped owners appear to belong to nobody: they
// can be read and executed with the permissions for others, but cannot be written or connected to. Returns EINVAL if
// the file system does not support this.
int MapOwners(int tree, int user_namespace, bool recursive);

}  // namespace ingot::sandbox::launcher
