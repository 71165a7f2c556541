// `ingot sandbox serve`: runs the execution service (execution/service.h) behind an HTTP server.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "http/options.h"
#include "sandbox/substrate.h"

namespace ingot::app {

struct SandboxServeArgs {
  http::Options http;
  sandbox::SubstrateOptions sandbox;
  // file with the API key, readable only by its owner; empty = DefaultKeyFile(), created if missing
  std::string key_file;
  bool no_key = false;                     // clients need no key; allowed only on a loopback address
  std::string store;                       // image store
  std::vector<std::string> image_folders;  // folders with image archives that clients may name
  int slots = 4;
  int sessions = 64;
  double session_idle_s = 600;
  int64_t session_memory_mib = 1024;  // memory limit of sessions that do not request a size
  // Total memory limit for all sessions. 0 = no limit, -1 = three quarters of the machine's free memory.
  int64_t memory_mib = -1;
};

// Returns STATE/ingot/sandbox.key, where STATE is XDG_STATE_HOME or ~/.local/state. Returns FAILED_PRECONDITION if
// neither is known.
absl::StatusOr<std::string> DefaultKeyFile();
// Returns the key in the file `path`. If the file is missing, creates it and its folders with a new key. If two
// services start at the same time, they get the same key. Returns INVALID_ARGUMENT if base::ReadSecret rejects the
// file, and UNAVAILABLE if it cannot be created.
absl::StatusOr<std::string> ReadOrMakeKey(const std::string& path);

// Blocks until SIGINT or SIGTERM and returns the exit code.
int SandboxServe(const SandboxServeArgs& args);

}  // namespace ingot::app
