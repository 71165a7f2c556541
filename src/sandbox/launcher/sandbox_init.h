// The first process of a sandbox. It raises the wall, then runs the sandbox's commands one after another: it starts
// each, adopts and reaps its orphans, and ends all of them when the command has ended, when it is asked to, and when
// the start's socket is closed. It ends with the sandbox's socket, and outlives the launcher. In a PID namespace it is
// process 1. It has the launcher's uid, holds only its own episode's keys, and cannot be traced.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "sandbox/launch_messages.h"

namespace ingot::sandbox::launcher {

// The facts of a launcher that all of its sandboxes share.
struct Ground {
  uint32_t walls = 0;
  uid_t uid = 0;  // of Ingot
  gid_t gid = 0;
  char** visible = nullptr;  // paths that sandboxes see
  uint32_t visible_count = 0;
  const void* filter = nullptr;  // kSeccomp: struct sock_filter
  uint32_t filter_bytes = 0;
};

// One message: a byte, and descriptors.
struct Incoming {
  bool open = true;  // false: the socket has ended
  char byte = 0;
  int count = 0;
  int fds[kOpenDescriptors + kMostGroups + kFreezerDescriptors];
};
Incoming Receive(int socket);

// The flags of clone(2) for a sandbox's first process.
int CloneFlags(const Ground& ground);

// Opens the sandbox of an Open (launch_messages.h) and serves it to its end.
[[noreturn]] void RunSandbox(const Ground& ground, const Incoming& open);

// Sends the report of a sandbox or a start that failed.
void ReportFailure(int control, LaunchStep step, int error, int index);

// Sends bytes with the descriptors in `fds` that are not -1, and closes them.
void Answer(int socket, const void* bytes, size_t size, int (&fds)[kMostReportDescriptors]);

// If the machine runs out of memory, the kernel kills processes of the sandbox first: better to lose an episode than
// the run. Without write access to its own file the process stays as it is.
void OfferToTheKernel();

// Before anything is forked: what it starts is in the groups too.
LaunchFailure EnterGroups(const int* groups, int count);

}  // namespace ingot::sandbox::launcher
