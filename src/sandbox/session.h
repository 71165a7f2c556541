// The processes of one session: a command's first process, which leads it, and all it has started that did not make a
// session of their own, whatever process groups they made (timeout(1), job control of a shell). Found in /proc; where
// that is not mounted, what follows reaches the leader's own group alone. Thread safe.
#pragma once

#include <sys/types.h>

namespace ingot::sandbox {

// One signal to each of them.
void SignalSession(pid_t leader, int signal);

// SIGKILL until none of them can run, and reaps those that have become this process's own children. False: some were
// still there after two seconds (in a system call that cannot be left). Does not reap the leader.
// REQUIRES: the leader is a child of this process that is not reaped, so that its id is nobody else's.
bool KillSession(pid_t leader);

}  // namespace ingot::sandbox
