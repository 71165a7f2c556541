// What a caller of the rollout engine sees, in process or over gRPC. Lower floor's interface: the gateway includes this
// header and nothing else of the folder.
#pragma once

#include <functional>
#include <memory>

#include "base/status.h"
#include "proto/rollout.pb.h"

namespace ingot::rollout {

class Client {
 public:
  virtual ~Client() = default;

  // Aborts its request when destroyed (if still running); what the request holds is freed by the next step. After the
  // destructor returned no chunk is delivered: it waits for an OnChunk of this request that another thread is in, and
  // for nothing else. So do not destroy it while holding a lock that its OnChunk takes. Destroyed from inside its own
  // OnChunk it does not wait.
  class Request {
   public:
    virtual ~Request() = default;
  };

  // Called in order, never concurrently for one request, from a thread of the client; must not block. The last call
  // carries a chunk with `finish` set, or the error that ended the request.
  using OnChunk = std::function<void(absl::StatusOr<v1::GenerateChunk>)>;

  // Starts a request and returns at once; every fault arrives through `on_chunk`, possibly before Generate returns:
  // INVALID_ARGUMENT (ids outside the vocabulary, bad parameters: base::Fault), RESOURCE_EXHAUSTED (queue full),
  // NOT_FOUND (pinned version not held), UNAVAILABLE (engine gone, shutting down or behind min_version). Thread safe.
  virtual std::unique_ptr<Request> Generate(const v1::GenerateRequest& request, OnChunk on_chunk) = 0;

  // Thread safe.
  virtual absl::StatusOr<v1::EngineStatusResponse> Status() = 0;
};

}  // namespace ingot::rollout
