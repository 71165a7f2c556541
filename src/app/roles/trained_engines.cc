#include "app/roles/trained_engines.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "app/roles/device_groups.h"
#include "app/training/weight_group_service.h"

namespace ingot::app {
namespace {

weights::PublisherOptions PublishingOf(const RunConfig& config) {
  weights::PublisherOptions options = config.weights.Options();
  options.codec.threads = std::max(config.trainer.threads, 1);  // the trainer's own threads are idle at that time
  return options;
}

BroadcastEnds BroadcastEndsOf(const RoleContext& context) {
  const std::chrono::milliseconds deadline = context.config.weights.Options().deadline;
  return {NewWeightGroupRoots(SeatOf(context), deadline),
          [deadline](v1::RoleChannel channel) { return NewWeightGroupMember(std::move(channel), deadline); }};
}

}  // namespace

TrainedEngines::TrainedEngines(const RoleContext& context, base::Executor& timers)
    : registry_(*context.registry),
      timers_(timers),
      publisher_(PublishingOf(context.config)),
      transports_(context.config, context.dir, publisher_, BroadcastEndsOf(context)) {}

absl::Status TrainedEngines::Add(const std::string& name) {
  const v1::RoleChannel channel = registry_.To(name);
  base::MutexLock lock(mu_);
  INGOT_ASSIGN_OR_RETURN(std::shared_ptr<weights::Sink> sink, transports_.SinkTo(name, channel));
  INGOT_RETURN_IF_ERROR(publisher_.AddEngine(name, std::move(sink)));
  connecting_.push_back(KeepConnecting(timers_, {channel}));
  return absl::OkStatus();
}

}  // namespace ingot::app
