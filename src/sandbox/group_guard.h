// The group guard is a small process beside this one. When this process dies without a chance to clean up (kill -9, the
// OOM killer), the guard kills the sessions of its commands: PR_SET_PDEATHSIG reaches a command's first process alone.
//
//   this process ---socket: "+id" at spawn, "-id" before reaping---> guard (/bin/sh, own session)
//                 x end of file, however this process ends      ---> SIGKILL to every session still listed: to its
//                                                                    leader's group, then to its processes in /proc
//
// A session's id is the pid of its leader, and the id of the leader's process group. A listed id is not used again by
// the system: it leaves the list while its leader is still a zombie. The first RunCommand starts the guard; a process
// that forks without exec gets a guard of its own at its next command. Without /bin/sh there is no guard, which is
// logged once; commands then still have PDEATHSIG. Thread safe.
#pragma once

#include <sys/types.h>

namespace ingot::sandbox {

// The socket that takes new sessions ("+pid\n"); -1 = there is no guard.
int GroupGuardFd();

// Takes the session of `leader` off the list. To be called between the session's death and the reaping of its leader.
void ForgetGroup(pid_t leader);

}  // namespace ingot::sandbox
