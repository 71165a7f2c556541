// Implements the engine's and the trainer's side of weight broadcasts (weights/broadcast_set.h) over gRPC and c10d.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>
#include <string>

#include "proto/grpc_channel.h"
#include "trainer/parallel/weight_group.h"
#include "weights/broadcast_set.h"

namespace ingot::app {

// This process's membership in groups that exchange weights.
struct WeightGroupSeat {
  std::string own_host;  // host where the other members reach this process
  std::string device = "cpu";
  decltype(&ingot_cuda_nccl_group) nccl = nullptr;  // from the device library; null = tensors are sent over Gloo
};

// Creates the engine's side (proto/weight_group.proto). REQUIRES: both references outlive the server that the service
// is registered on.
std::unique_ptr<grpc::Service> NewWeightGroupService(weights::Sink& engine, const weights::CodecOptions& codec,
                                                     WeightGroupSeat seat);

// Create the trainer's side. `deadline` is the time allowed to broadcast and apply one version and must be positive.
// The exchange may take a third of it.
std::shared_ptr<weights::BroadcastMember> NewWeightGroupMember(v1::RoleChannel channel,
                                                               std::chrono::milliseconds deadline);
weights::BroadcastSet::MakeRoot NewWeightGroupRoots(WeightGroupSeat seat, std::chrono::milliseconds deadline);

}  // namespace ingot::app
