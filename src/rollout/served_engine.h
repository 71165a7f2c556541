// The engine that a role serves. It is a client that samples and a sink that receives weights. Implemented by Ingot's
// own engine (rollout/engine/engine.h) and by engines::ExternalEngine for another project's server.
#pragma once

#include <chrono>

#include "rollout/client.h"
#include "rollout/engine/engine_options.h"
#include "weights/delta.h"
#include "weights/sink.h"

namespace ingot::rollout {

class ServedEngine : public Client, public weights::Sink {
 public:
  // Drains the engine before shutdown. New requests get UNAVAILABLE and move to other engines. Returns true when all
  // running requests have ended, or false if some are still running after `timeout`.
  virtual bool Drain(std::chrono::nanoseconds timeout) = 0;
  // Ends every request with UNAVAILABLE. Later calls return UNAVAILABLE. Must not be called from an OnChunk.
  virtual void Shutdown() = 0;

  // Returns why the engine can never serve, for example because a server has a different model. OK = it can serve now
  // or may be able to later.
  virtual absl::Status fault() const { return absl::OkStatus(); }

  virtual const EngineOptions& options() const = 0;
  // Limits a decoded update to the model's size, even if fewer bytes are sent.
  virtual const weights::CodecOptions& codec() const = 0;
};

}  // namespace ingot::rollout
