// Client is the interface between a caller and a rollout engine, in this process or over gRPC. It is the only header of
// this folder that the gateway includes.
#pragma once

#include <functional>
#include <memory>

#include "base/status.h"
#include "proto/rollout.pb.h"

namespace ingot::rollout {

class Client {
 public:
  virtual ~Client() = default;

  // The handle of one running request. Its destructor aborts the request; the engine's next step frees the memory.
  //
  // No chunk arrives after the destructor returns. The destructor waits only for an OnChunk of this request that
  // another thread runs. So do not destroy a handle under a lock that its OnChunk takes. A handle that is destroyed
  // inside its own OnChunk does not wait.
  class Request {
   public:
    virtual ~Request() = default;
  };

  // Receives the chunks of one request, in order, one call at a time, on a thread of the client. Must not block. The
  // last call carries a chunk with `finish` set, or the error that ended the request.
  using OnChunk = std::function<void(absl::StatusOr<v1::GenerateChunk>)>;

  // Starts a request and returns at once. Thread safe. Every error arrives through `on_chunk`, possibly before Generate
  // returns:
  //   INVALID_ARGUMENT    ids outside the vocabulary, bad parameters (a base::Fault names the parameter)
  //   RESOURCE_EXHAUSTED  the queue is full
  //   NOT_FOUND           the engine does not hold the pinned version
  //   UNAVAILABLE         the engine is gone, shuts down or is older than min_version
  // Move a request with a long prompt: a client keeps no copy once an engine has begun to answer.
  virtual std::unique_ptr<Request> Generate(v1::GenerateRequest request, OnChunk on_chunk) = 0;

  // Thread safe.
  virtual absl::StatusOr<v1::EngineStatusResponse> Status() = 0;
};

}  // namespace ingot::rollout
