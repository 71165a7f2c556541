// Signals for the processes of one session: a command's first process, which leads the session, and its descendants
// that made no session of their own, whatever process groups they made (timeout(1), job control of a shell). /proc
// lists them; where it is not mounted, a signal reaches the leader's process group alone. Thread safe.
#pragma once

#include <sys/types.h>

namespace ingot::sandbox {

// Sends `signal` to each process of the session once.
void SignalSession(pid_t leader, int signal);

// Sends SIGKILL until no process of the session can run, and reaps those that have become children of this process.
// Does not reap the leader. False: a process was still there after two seconds, in a system call that cannot be
// interrupted. REQUIRES: the leader is a child of this process that is not reaped, so that its id is not used again.
bool KillSession(pid_t leader);

}  // namespace ingot::sandbox
