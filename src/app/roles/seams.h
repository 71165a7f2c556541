// Adapters between roles of one process that do not know each other: the scheduler as the gateway's admission, and the
// gateway as the runner's episodes.
#pragma once

#include <string>
#include <utility>

#include "agents/episodes.h"
#include "base/random.h"
#include "gateway/admission.h"
#include "gateway/gateway.h"
#include "scheduler/client.h"

namespace ingot::app {

class SchedulerAdmission final : public gateway::Admission {
 public:
  explicit SchedulerAdmission(scheduler::Client& scheduler) : scheduler_(scheduler) {}
  absl::StatusOr<v1::Ticket> Admit(const v1::AdmitRequest& request) override { return scheduler_.Admit(request); }
  absl::Status ReportEpisodeEnd(const v1::ReportEpisodeEndRequest& request) override {
    return scheduler_.ReportEpisodeEnd(request);
  }

 private:
  scheduler::Client& scheduler_;
};

class GatewayEpisodes final : public agents::Episodes {
 public:
  GatewayEpisodes(gateway::Gateway& gateway, std::string admin_key)
      : gateway_(gateway), admin_key_(std::move(admin_key)) {}
  absl::StatusOr<v1::EpisodeOpenResponse> Open(const v1::EpisodeOpenRequest& request) override {
    v1::EpisodeOpenRequest allowed = request;
    allowed.set_admin_key(admin_key_);
    allowed.set_runner(kRunner);
    allowed.set_incarnation(incarnation_);
    return gateway_.OpenEpisode(allowed);
  }
  absl::Status Reward(const v1::EpisodeRewardRequest& request) override { return gateway_.RewardEpisode(request); }
  absl::StatusOr<v1::EpisodeEndResponse> End(const v1::EpisodeEndRequest& request) override {
    return gateway_.EndEpisode(request);
  }
  absl::StatusOr<v1::NextSnapshotResponse> NextSnapshot(const v1::NextSnapshotRequest& request) override {
    v1::NextSnapshotRequest named = request;
    named.set_admin_key(admin_key_);
    named.set_runner(kRunner);
    return gateway_.NextSnapshot(named);
  }
  absl::Status SnapshotTaken(const v1::SnapshotTakenRequest& request) override {
    v1::SnapshotTakenRequest named = request;
    named.set_admin_key(admin_key_);
    return gateway_.SnapshotTaken(named);
  }
  absl::Status SendSnapshotFiles(const v1::SnapshotFilesPart& part) override {
    v1::SnapshotFilesPart named = part;
    named.set_admin_key(admin_key_);
    return gateway_.SendSnapshotFiles(named);
  }

 private:
  static constexpr char kRunner[] = "agents";  // as under `ingot launch`

  gateway::Gateway& gateway_;
  const std::string admin_key_;
  const std::string incarnation_ = base::RandomHex(8);
};

}  // namespace ingot::app
