// Defines the interface to a rollout engine, either in this process or over gRPC. The gateway includes no other header
// of this directory.
#pragma once

#include <functional>
#include <memory>

#include "base/status.h"
#include "proto/rollout.pb.h"

namespace ingot::rollout {

class Client {
 public:
  virtual ~Client() = default;

  // A handle to a running request. The destructor aborts the request, and the engine's next step frees the memory.
  //
  // Chunks never arrive after the destructor has returned. The destructor waits only if another thread is running
  // OnChunk for this request, so do not destroy a handle while holding a lock that its OnChunk acquires. A handle
  // destroyed inside its own OnChunk does not wait.
  class Request {
   public:
    virtual ~Request() = default;
  };

  // Receives a request's chunks in order, one call at a time, on one of the client's threads. Must not block. The last
  // call has a chunk with `finish` set, or the error that ended the request.
  using OnChunk = std::function<void(absl::StatusOr<v1::GenerateChunk>)>;

  // Starts a request and returns immediately. All errors are reported through `on_chunk`, possibly before Generate
  // returns. Thread safe.
  //   INVALID_ARGUMENT    ids outside the vocabulary, or invalid parameters (a base::Fault names the parameter)
  //   RESOURCE_EXHAUSTED  the queue is full
  //   NOT_FOUND           the engine does not have the pinned version
  //   UNAVAILABLE         the engine is gone or shutting down, or its version is older than min_version
  // Move requests with long prompts into this call. A client keeps no copy after an engine has started to
  // respond.
  virtual std::unique_ptr<Request> Generate(v1::GenerateRequest request, OnChunk on_chunk) = 0;

  // Thread safe.
  virtual absl::StatusOr<v1::EngineStatusResponse> Status() = 0;
};

}  // namespace ingot::rollout
