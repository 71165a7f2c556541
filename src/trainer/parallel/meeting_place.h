// Opens the store where the processes in a c10d group exchange their addresses. One of the processes serves it. A
// process without the secret cannot find any of its keys.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <string>

#include "base/status.h"
#include "trainer/parallel/c10d_types.h"

namespace ingot::trainer {

struct MeetingOptions {
  std::string host = "127.0.0.1";
  int port = 0;
  std::string secret;                         // the same in all processes; empty = none
  bool serves = false;                        // true = this process serves the store
  int size = 1;                               // number of processes
  std::chrono::milliseconds timeout{120000};  // maximum wait for a key
};

// Returns a socket that listens on `host` only. Sets a `port` of 0 to a free one. Returns INVALID_ARGUMENT if it cannot
// listen.
absl::StatusOr<int> ListenForRanks(const std::string& host, int* port);

// Takes ownership of `listener`, the serving process's socket. Returns UNAVAILABLE if the store cannot be reached.
absl::StatusOr<c10::intrusive_ptr<c10d::Store>> OpenMeetingPlace(const MeetingOptions& options, int listener);

// Makes the process ignore SIGPIPE, unless a handler is already set. Gloo writes to sockets without MSG_NOSIGNAL, so a
// closed peer socket would otherwise kill this process.
void SurviveClosedSockets();

}  // namespace ingot::trainer
