#include "app/roles/device_groups.h"

#include <dlfcn.h>

#include "app/cluster/role_addresses.h"

namespace ingot::app {

decltype(&ingot_cuda_nccl_group) DeviceExchanges(const RoleContext& context) {
  if (context.device.library == nullptr) return nullptr;
  return reinterpret_cast<decltype(&ingot_cuda_nccl_group)>(::dlsym(context.device.library, trainer::kNcclGroupSymbol));
}

WeightGroupSeat SeatOf(const RoleContext& context) {
  WeightGroupSeat seat;
  seat.own_host = OwnHost(context.config.cluster);
  seat.nccl = DeviceExchanges(context);
  if (seat.nccl != nullptr) seat.device = context.device.torch_name;
  return seat;
}

}  // namespace ingot::app
