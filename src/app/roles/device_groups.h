// Supports groups of processes that exchange tensors between their devices: the trainer's ranks, and the trainer with
// the engines that receive its weights.
#pragma once

#include "app/roles/role.h"
#include "app/training/weight_group_service.h"
#include "trainer/parallel/ranks.h"

namespace ingot::app {

// Returns the function that creates NCCL groups. Null = there is no device, or its library was built without NCCL.
decltype(&ingot_cuda_nccl_group) DeviceExchanges(const RoleContext& context);

// Returns this process's seat in the weight groups.
WeightGroupSeat SeatOf(const RoleContext& context);

}  // namespace ingot::app
