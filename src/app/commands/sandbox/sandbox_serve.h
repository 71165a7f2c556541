// `ingot sandbox serve`: the execution service (execution/service.h) behind an HTTP server.
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
  std::string key_file;  // one word, owner-only; empty = DefaultKeyFile(), which is made if it is missing
  bool no_key = false;   // clients show no key; on a loopback address only
  std::string store;     // of images
  std::vector<std::string> image_folders;  // with archives that clients may name
  int slots = 4;
  int sessions = 64;
  double session_idle_s = 600;
  int64_t session_memory_mib = 1024;  // of a session that does not ask for another size
  // All sessions may use this much; 0 = no limit, -1 = three quarters of the machine's free memory.
  int64_t memory_mib = -1;
};

// STATE/ingot/sandbox.key, where STATE is XDG_STATE_HOME or ~/.local/state. FAILED_PRECONDITION: neither is known.
absl::StatusOr<std::string> DefaultKeyFile();
// The key in the file `path`, which is made with its folders and a new key if it is missing: two services that start
// together get the same key. INVALID_ARGUMENT: as base::ReadSecret; UNAVAILABLE: it cannot be made.
absl::StatusOr<std::string> ReadOrMakeKey(const std::string& path);

// Blocks until SIGINT or SIGTERM. Returns the exit code.
int SandboxServe(const SandboxServeArgs& args);

}  // namespace ingot::app
