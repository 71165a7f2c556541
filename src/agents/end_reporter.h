// The EndReporter reports the end of an episode to the gateway: its reward and its state. It also reads the messages
// for the episode's verifier. Thread safe.
#pragma once

#include <map>
#include <string>

#include "agents/episode_run.h"
#include "agents/episodes.h"
#include "agents/gateway_retry.h"
#include "base/status.h"
#include "proto/gateway.pb.h"

namespace ingot::agents {

class EndReporter {
 public:
  // Both arguments must outlive this object.
  EndReporter(Episodes& episodes, GatewayRetry& retry) : episodes_(episodes), retry_(retry) {}

  // Posts the verifier's reward and ends the episode. Any other reward is sent as EpisodeEndRequest.unless_rewarded, so
  // it never replaces a posted reward. An episode that cannot be ended as finished is ended as failed. On return,
  // `report` contains the cause under which the episode is counted and, for a failure, the gateway's last rejection.
  // Returns an error if the gateway did not accept the request to end the episode.
  absl::Status Report(const v1::EpisodeOpenResponse& episode, EpisodeReport& report);

  // Returns the assistant's messages so far as a JSON array. Waits for a gateway, like Report.
  absl::StatusOr<std::string> Messages(const v1::EpisodeOpenResponse& episode);

 private:
  absl::Status Post(const v1::EpisodeOpenResponse& episode, double earned, const std::map<std::string, double>& signals,
                    const std::map<std::string, std::string>& facts);
  absl::Status Finish(const v1::EpisodeOpenResponse& episode, const EpisodeReport& report);
  absl::StatusOr<v1::EpisodeEndResponse> End(const v1::EpisodeOpenResponse& episode, v1::EpisodeState state,
                                             const std::string& detail, const std::string& cause = "",
                                             const v1::DefaultOutcome* unless_rewarded = nullptr);

  Episodes& episodes_;
  GatewayRetry& retry_;
};

}  // namespace ingot::agents
