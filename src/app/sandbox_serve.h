// `ingot sandbox serve`: the execution service (execution/service.h) behind an HTTP server.
#pragma once

#include <string>
#include <vector>

#include "http/options.h"
#include "sandbox/substrate.h"

namespace ingot::app {

struct SandboxServeArgs {
  http::Options http;
  sandbox::SubstrateOptions sandbox;
  std::string key_file;                    // one word, for its owner alone; empty = no key, on a loopback address only
  std::string store;                       // of images
  std::vector<std::string> image_folders;  // with archives that clients may name
  int slots = 4;
  int sessions = 64;
  double session_idle_s = 600;
  int64_t session_memory_mib = 1024;  // of a session that asks for no other number
  // All sessions may use this much; 0 = no bound, -1 = three quarters of the memory that the machine has left.
  int64_t memory_mib = -1;
};

// Blocks until SIGINT or SIGTERM. Returns the exit code.
int SandboxServe(const SandboxServeArgs& args);

}  // namespace ingot::app
