// The groups of processes whose devices exchange tensors: ranks of the trainer, and trainer and engines for weights.
#pragma once

#include "app/roles/role.h"
#include "app/training/weight_group_service.h"
#include "trainer/parallel/ranks.h"

namespace ingot::app {

// The exchanges between devices. Null = there is no device, or its library was built without NCCL.
decltype(&ingot_cuda_nccl_group) DeviceExchanges(const RoleContext& context);

// This process in groups for weights.
WeightGroupSeat SeatOf(const RoleContext& context);

}  // namespace ingot::app
