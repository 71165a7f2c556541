// The place where the processes of a c10d group leave one another their addresses: a store that one of them serves.
// Whoever does not know the secret finds no key of it.
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

// A socket that listens at `host` alone; `port` 0 becomes the free port that it has. INVALID_ARGUMENT: it cannot.
absl::StatusOr<int> ListenForRanks(const std::string& host, int* port);

// `listener`: of the process that serves, which takes it over. UNAVAILABLE: the store cannot be reached.
absl::StatusOr<c10::intrusive_ptr<c10d::Store>> OpenMeetingPlace(const MeetingOptions& options, int listener);

// Gloo writes to sockets without MSG_NOSIGNAL: a peer that closed its socket would end this process by SIGPIPE. A
// handler that was set before stays.
void SurviveClosedSockets();

}  // namespace ingot::trainer
