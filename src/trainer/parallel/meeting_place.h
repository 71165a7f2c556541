// Where the processes of a c10d group exchange their addresses: a store that one of them serves. A process that does
// not know the secret finds none of its keys.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

#include "base/status.h"

namespace ingot::trainer {

struct MeetingOptions {
  std::string host = "127.0.0.1";
  int port = 0;
  std::string secret;                         // the same in all processes; empty = none
  bool serves = false;                        // this process serves the store
  int size = 1;                               // processes
  std::chrono::milliseconds timeout{120000};  // of a wait for a key
};

// A socket that listens only at `host`; `port` 0 becomes its free port. INVALID_ARGUMENT: it cannot listen.
absl::StatusOr<int> ListenForRanks(const std::string& host, int* port);

// `listener`: the serving process's socket; takes it over. UNAVAILABLE: the store cannot be reached.
absl::StatusOr<c10::intrusive_ptr<c10d::Store>> OpenMeetingPlace(const MeetingOptions& options, int listener);

// Gloo writes to sockets without MSG_NOSIGNAL: a peer that closed its socket would end this process by SIGPIPE. A
// handler that was set before stays.
void SurviveClosedSockets();

}  // namespace ingot::trainer
