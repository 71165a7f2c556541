// A tiny process beside this one that kills the process groups this one leaves behind when it dies without a chance to
// clean up (kill -9, the OOM killer): PR_SET_PDEATHSIG reaches a command's first process but not its children.
//
//   this process ---socket: "+pgid" at spawn, "-pgid" before reaping---> guard (/bin/sh, own session)
//                 x end of file, however this process ends          ---> SIGKILL to every group still listed
//
// A listed pgid cannot have been reused: it leaves the list while its leader is still a zombie. Started by the first
// RunCommand; a process that forks without exec gets its own at its next command. Without /bin/sh there is no guard,
// which is logged once; commands then still have PDEATHSIG. Thread safe.
#pragma once

#include <sys/types.h>

namespace ingot::sandbox {

// The socket to tell it new groups through ("+pid\n"); -1: there is no guard.
int GroupGuardFd();

// `pgid` was killed and is about to be reaped.
void ForgetGroup(pid_t pgid);

}  // namespace ingot::sandbox
