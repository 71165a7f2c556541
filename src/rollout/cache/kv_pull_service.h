// Serves an engine's chunks in memory to engines that pull them (proto/kv_pull.proto).
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "kv/memory_store.h"

namespace ingot::rollout {

// Each pull uses a server thread until its last byte is sent, its deadline passes, or its caller is gone, and keeps its
// chunk in memory meanwhile.
std::unique_ptr<grpc::Service> NewKvPullService(std::shared_ptr<kv::MemoryStore> store);

}  // namespace ingot::rollout
