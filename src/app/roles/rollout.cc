#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/models/model_setup.h"
#include "app/roles/assembly.h"
#include "app/roles/device_groups.h"
#include "app/roles/role.h"
#include "app/roles/roles.h"
#include "app/run/compute_members.h"
#include "app/training/weight_group_service.h"
#include "app/training/weight_transports.h"
#include "base/clock.h"
#include "base/log.h"
#include "engines/service.h"
#include "rollout/cache/grpc_kv_store.h"
#include "rollout/cache/kv_pull_service.h"
#include "rollout/engine/service.h"

namespace ingot::app {
namespace {

// The KV store of a rollout role whose chunks are in memory.
struct MemoryKv {
  std::shared_ptr<kv::Store> store;        // null = the store is a directory, or there is none
  std::unique_ptr<grpc::Service> service;  // null = the engine pulls from others
};

// The engines that compute prompts for others keep their chunks, and the others pull them.
MemoryKv MemoryKvOf(const RoleContext& context, const ModelSetup& model) {
  const rollout::EngineOptions& options = context.config.rollout;
  if (!kv::IsInMemory(options.kv_store)) return {};
  if (context.index < options.router.prefill_engines) {
    std::shared_ptr<kv::MemoryStore> kept = MakeMemoryStore(options, model.shape);
    return {kept, rollout::NewKvPullService(kept)};
  }
  std::vector<rollout::KvPeer> peers;
  for (int i = 0; i < options.router.prefill_engines; ++i) {
    const std::string name = RoleName("rollout", i);
    peers.push_back({name, context.registry->To(name)});
  }
  const std::chrono::milliseconds timeout(options.router.prefill_wait_ms);
  return {rollout::NewPulledStore(std::move(peers), timeout), nullptr};
}

}  // namespace

absl::Status RunRollout(const RoleContext& context) {
  INGOT_ASSIGN_OR_RETURN(const ModelSetup model, SetUpModel(context.config.model, context.device.torch_name));
  const std::string name = RoleName("rollout", context.index);
  MemoryKv memory = MemoryKvOf(context, model);
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<rollout::ServedEngine> engine,
                         MakeServedEngine(context.config, model,
                                          {.owner = absl::StrCat(context.config.name, "-", name),
                                           .log_path = absl::StrCat(context.dir.logs(), "/", name, "-server.log"),
                                           .index = context.index,
                                           .store = memory.store,
                                           .writes = memory.service != nullptr},
                                          ComputeMemberOfRole(context.config, context.device.torch_name,
                                                              context.dir.path(), "rollout", context.index)));
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(rollout::NewRolloutService(*engine));
  if (memory.service != nullptr) services.push_back(std::move(memory.service));
  if (auto* guard = dynamic_cast<engines::EngineGuard*>(engine.get()); guard != nullptr) {
    services.push_back(engines::NewEngineGuardService(*guard));
  }
  if (auto* parking = dynamic_cast<rollout::Parking*>(engine.get()); parking != nullptr) {
    services.push_back(rollout::NewParkingService(*parking));
  }
  INGOT_ASSIGN_OR_RETURN(const WeightTransport transport, TransportOf(context.config.weights.transports, name));
  if (transport == WeightTransport::kBroadcast) {
    services.push_back(NewWeightGroupService(*engine, engine->codec(), SeatOf(context)));
  }
  INGOT_ASSIGN_OR_RETURN(const auto server, ServeRole(context, "rollout", std::move(services)));
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<weights::Follower> follower,
                         FollowWeights(context.config, context.dir, name, *engine, engine->codec()));
  WaitForStop([&] { return !engine->fault().ok(); });
  INGOT_RETURN_IF_ERROR(engine->fault());
  // Running calls finish, and new ones go to other engines.
  if (!engine->Drain(base::FromSeconds(context.config.cluster.drain_s))) {
    INGOT_LOG(warn, "calls are still running after {} s (cluster.drain_s): they are retried on other engines",
              context.config.cluster.drain_s);
  }
  engine->Shutdown();
  return absl::OkStatus();
}

}  // namespace ingot::app
