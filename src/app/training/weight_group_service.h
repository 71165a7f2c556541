// The engine's and the trainer's ends of weight broadcasts (weights/broadcast_set.h) over gRPC and c10d.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>
#include <string>

#include "proto/grpc_channel.h"
#include "trainer/parallel/weight_group.h"
#include "weights/broadcast_set.h"

namespace ingot::app {

// This process in groups for weights.
struct WeightGroupSeat {
  std::string own_host;  // where the others reach it
  std::string device = "cpu";
  decltype(&ingot_cuda_nccl_group) nccl = nullptr;  // of the device library; null = tensors go over Gloo
};

// The engine's end (proto/weight_group.proto). Both arguments outlive the server on which the service is registered.
std::unique_ptr<grpc::Service> NewWeightGroupService(weights::Sink& engine, const weights::CodecOptions& codec,
                                                     WeightGroupSeat seat);

// The trainer's ends. `deadline`: to broadcast and apply one version, > 0; groups have a third of it for the exchange.
std::shared_ptr<weights::BroadcastMember> NewWeightGroupMember(v1::RoleChannel channel,
                                                               std::chrono::milliseconds deadline);
weights::BroadcastSet::MakeRoot NewWeightGroupRoots(WeightGroupSeat seat, std::chrono::milliseconds deadline);

}  // namespace ingot::app
