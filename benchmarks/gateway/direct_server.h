// The least that serves the stub engine over HTTP: reads a request of known length, does not look into it, and streams
// for each chunk of the answer events that were recorded beforehand. What the gateway is measured against.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rollout/client.h"

namespace ingot::bench {

class DirectServer {
 public:
  // `events`: what is sent for each chunk of the engine; the last one ends the stream. Listens on 127.0.0.1.
  DirectServer(rollout::Client& engine, std::vector<std::string> events);
  ~DirectServer();
  int port() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ingot::bench
