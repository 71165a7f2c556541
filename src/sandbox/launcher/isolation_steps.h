// Implements isolation steps that need only system calls: user namespace ids, mounts, and capabilities. Each function
// returns 0 or errno.
#pragma once

#include <sys/types.h>

namespace ingot::sandbox::launcher {

// In a new user namespace, maps the host ids `uid` and `gid` to themselves. No other ids exist in the namespace.
int MapIds(uid_t uid, gid_t gid);

// Same as MapIds, but both ids are `inside` in the namespace. If `inside` equals `uid`, each id maps to itself.
int MapIdsTo(uid_t inside, uid_t uid, gid_t gid);

// In a new mount namespace, stops mount propagation to the host. Later mounts on the host are still visible.
int DetachMounts();

// Covers a folder with an empty read-only folder, or a file with /dev/null. A missing path is not an error.
int HidePath(const char* path, bool is_folder);

// Mounts /proc for the calling process's PID namespace.
int MountProc();

// Covers `work_root` with an empty folder that contains only `sandbox`. REQUIRES: `sandbox` is directly in work_root.
int ShowOneSandbox(const char* work_root, const char* sandbox);

// Ensures that executed programs gain no capabilities from setuid bits, file capabilities, or being root.
int BoundCapabilities();

// Covers /etc/passwd with the sandbox's passwd, where its uid has a name, because programs such as git look it up. Does
// nothing if either file is missing.
int NameUid(const char* sandbox);

// Drops this process's capabilities.
int DropCapabilities();

}  // namespace ingot::sandbox::launcher
