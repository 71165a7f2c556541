// Runs a sandbox's first process. It sets up the isolation and then runs the sandbox's commands one after another. It
// starts each command, and adopts and reaps its orphans. It kills them all when the command has ended, on request, or
// when the start's socket closes. It exits when the sandbox's socket closes, and may outlive the launcher. In a PID
// namespace, it is process 1. It has the launcher's uid, holds only its own episode's keys, and cannot be traced.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "sandbox/launch_messages.h"

namespace ingot::sandbox::launcher {

// Settings shared by a launcher's sandboxes.
struct Ground {
  uint32_t isolation = 0;
  uid_t uid = 0;  // Ingot's uid
  gid_t gid = 0;
  char** visible = nullptr;  // paths that sandboxes see
  uint32_t visible_count = 0;
  const void* filter = nullptr;  // kSeccomp: array of struct sock_filter
  uint32_t filter_bytes = 0;
};

// A received message: one byte with descriptors.
struct Incoming {
  bool open = true;  // false = the socket was closed
  char byte = 0;
  int count = 0;
  int fds[kOpenDescriptors + kMaxGroups + kFreezerDescriptors];
};
Incoming Receive(int socket);

// Returns the clone(2) flags for a sandbox's first process.
int CloneFlags(const Ground& ground);

// Opens the sandbox described by an Open message (launch_messages.h) and serves it until it ends.
[[noreturn]] void RunSandbox(const Ground& ground, const Incoming& open);

// Reports that a sandbox or a start failed.
void ReportFailure(int control, LaunchStep step, int error, int index);

// Sends bytes along with the descriptors in `fds` that are not -1, and closes the descriptors.
void Answer(int socket, const void* bytes, size_t size, int (&fds)[kMaxReportDescriptors]);

// Makes the kernel kill this sandbox's processes first if the machine runs out of memory, because losing an episode is
// better than losing the run. Does nothing if the process cannot write its oom_score_adj file.
void OfferToTheKernel();

// Enters the control groups. Called before forking anything, so that child processes are in the groups too.
LaunchFailure EnterGroups(const int* groups, int count);

}  // namespace ingot::sandbox::launcher
