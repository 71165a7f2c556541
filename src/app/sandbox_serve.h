// `ingot sandbox serve`: the execution service (app/execution_service.h) behind an HTTP server.
#pragma once

#include <string>

#include "http/options.h"
#include "sandbox/substrate.h"

namespace ingot::app {

struct SandboxServeArgs {
  http::Options http;
  sandbox::SubstrateOptions sandbox;
  std::string key_file;  // one word, for its owner alone; empty = no key, on a loopback address only
  std::string store;     // of images
  int slots = 4;
  int sessions = 64;
  double session_idle_s = 600;
};

// Blocks until SIGINT or SIGTERM. Returns the exit code.
int SandboxServe(const SandboxServeArgs& args);

}  // namespace ingot::app
