// A fake gateway with episodes that have made no call.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "gateway/client.h"

namespace ingot::app {

class FakeGateway final : public gateway::Client {
 public:
  absl::StatusOr<v1::GatewayStatusResponse> Status() override {
    if (!fault.ok()) return fault;
    v1::GatewayStatusResponse status;
    for (const auto& [id, age_ms] : ages_ms) {
      v1::UncalledEpisode& one = *status.add_uncalled();
      one.set_episode_id(id);
      one.set_age_ms(age_ms);
      one.set_task_id(task);
      status.set_oldest_uncalled_ms(std::max(status.oldest_uncalled_ms(), age_ms));
    }
    status.set_uncalled_episodes(status.uncalled_size());
    return status;
  }
  absl::StatusOr<v1::EndUncalledResponse> EndUncalled(const v1::EndUncalledRequest& request) override {
    asked.push_back(request.episode_id());
    if (!fault.ok()) return fault;
    if (request.admin_key() != key) return absl::PermissionDeniedError("wrong key");
    v1::EndUncalledResponse response;
    response.set_ended(
        static_cast<int64_t>(request.episode_id().empty() ? ages_ms.size() : ages_ms.erase(request.episode_id())));
    if (request.episode_id().empty()) ages_ms.clear();
    if (response.ended() == 0 && !request.episode_id().empty()) return absl::NotFoundError("there is no open episode");
    return response;
  }

  std::map<std::string, int64_t> ages_ms;  // by id
  std::string key, task;
  absl::Status fault;
  std::vector<std::string> asked;
};

}  // namespace ingot::app
