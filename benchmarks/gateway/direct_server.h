// A minimal HTTP server around the stub engine, the baseline of the gateway's figures. It reads a request of known
// length, does not look into it, and streams recorded events for each chunk of the answer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rollout/client.h"

namespace ingot::bench {

class DirectServer {
 public:
  // `events`: the bytes sent for each chunk of the engine; the last one ends the stream. Listens on 127.0.0.1.
  DirectServer(rollout::Client& engine, std::vector<std::string> events);
  ~DirectServer();
  int port() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ingot::bench
