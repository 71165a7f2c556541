// A tiny process beside this one that kills the sessions this one leaves behind when it dies without a chance to clean
// up (kill -9, the OOM killer): PR_SET_PDEATHSIG reaches a command's first process but not its children.
//
//   this process ---socket: "+id" at spawn, "-id" before reaping---> guard (/bin/sh, own session)
//                 x end of file, however this process ends      ---> SIGKILL to every session still listed: to its
//                                                                    leader's group, then to what /proc shows of it
//
// The id of a session is its leader's, and that of the leader's group. A listed one cannot have been reused: it leaves
// the list while its leader is still a zombie. Started by the first RunCommand; a process that forks without exec gets
// its own at its next command. Without /bin/sh there is no guard, which is logged once; commands then still have
// PDEATHSIG. Thread safe.
#pragma once

#include <sys/types.h>

namespace ingot::sandbox {

// The socket to tell it new sessions through ("+pid\n"); -1: there is no guard.
int GroupGuardFd();

// The session of `leader` was killed, and the leader is about to be reaped.
void ForgetGroup(pid_t leader);

}  // namespace ingot::sandbox
