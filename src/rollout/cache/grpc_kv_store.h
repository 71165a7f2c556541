// A store whose chunks are in the memory of other engines, which computed them (proto/kv_pull.proto).
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "kv/store.h"
#include "proto/grpc_channel.h"

namespace ingot::rollout {

// An engine to pull from.
struct KvPeer {
  std::string name;  // for errors
  v1::RoleChannel channel;
};

// Returns a store that reads from `peers` and writes nothing. A chunk is verified like one in a file. If an engine fails
// or does not answer within `timeout`, the store returns UNAVAILABLE and does not ask that engine for 1 to 16 s. Thread
// safe. `clock` must outlive the store. REQUIRES: `peers` is not empty.
std::shared_ptr<kv::Store> NewPulledStore(std::vector<KvPeer> peers, std::chrono::milliseconds timeout,
                                          const base::Clock& clock = base::Clock::Real());

}  // namespace ingot::rollout
