#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "app/roles/role.h"
#include "app/roles/roles.h"
#include "app/run/full_disk.h"
#include "app/run/process.h"
#include "base/waits.h"
#include "datapool/service.h"
#include "datapool/store.h"

namespace ingot::app {
namespace {

// In a new run, only the first pool process may delete an earlier run's pool. The others open the pool after that.
absl::Status AwaitFirstPool(RunRegistry& registry) {
  const base::Wait wait("datapool, which opens the pool first");
  while (!StopFlag()) {
    const std::vector<RolePlace> places = registry.LastPlaces();
    if (std::any_of(places.begin(), places.end(), [](const auto& place) { return place.name == "datapool"; })) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunDataPool(const RoleContext& context) {
  datapool::StoreOptions store = context.config.datapool;
  if (context.resume || context.index > 0) store.postgres.replace = false;
  if (!context.resume && context.index > 0) INGOT_RETURN_IF_ERROR(AwaitFirstPool(*context.registry));
  std::unique_ptr<datapool::Client> pool;
  INGOT_RETURN_IF_ERROR(Persist(RoleRetryPolicy(), "opening the pool", [&]() -> absl::Status {
    auto opened = datapool::OpenPool(store);
    if (!opened.ok()) return NameFullDisk(opened.status(), store.path, kStartBytes);
    pool = *std::move(opened);
    return absl::OkStatus();
  }));
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(datapool::NewDataPoolService(*pool));
  INGOT_ASSIGN_OR_RETURN(const auto server, ServeRole(context, "datapool", std::move(services)));
  WaitForStop();
  return absl::OkStatus();
}

}  // namespace ingot::app
