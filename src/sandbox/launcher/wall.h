// The parts of the wall that need only system calls: ids of a user namespace, mounts, capabilities. Each function
// returns 0 or errno.
#pragma once

#include <sys/types.h>

namespace ingot::sandbox::launcher {

// In a new user namespace: maps `uid` and `gid`, the ids outside, to themselves. No other id exists inside.
int MapIds(uid_t uid, gid_t gid);

// The same, with both ids seen inside as `inside`. `inside` == uid: each as itself.
int MapIdsTo(uid_t inside, uid_t uid, gid_t gid);

// In a new mount namespace: later mounts of the host arrive, none leaves.
int DetachMounts();

// Covers a folder with an empty, read-only one, or a file with /dev/null. A missing path is not an error.
int HidePath(const char* path, bool is_folder);

// Mounts a /proc of the calling process's PID namespace.
int MountProc();

// Covers `work_root` with an empty folder that has only `sandbox` left. REQUIRES: `sandbox` lies directly in work_root.
int ShowOneSandbox(const char* work_root, const char* sandbox);

// Programs that this process executes give it no capability: neither by setuid bits, nor as files, nor as root's.
int BoundCapabilities();

// Covers /etc/passwd with the sandbox's passwd, in which its uid has a name: programs such as git ask for it. A machine
// without one of the files needs none.
int NameUid(const char* sandbox);

// Gives up the capabilities that this process has.
int DropCapabilities();

}  // namespace ingot::sandbox::launcher
