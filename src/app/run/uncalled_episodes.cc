#include "app/run/uncalled_episodes.h"

#include <algorithm>

#include "base/printable.h"

namespace ingot::app {
namespace {

constexpr size_t kMaxId = 64;  // bytes

absl::StatusOr<int64_t> EndAll(const Gateways& gateways, const v1::EndUncalledRequest& request) {
  int64_t ended = 0;
  for (const auto& [name, gateway] : gateways) {
    const auto response = gateway->EndUncalled(request);
    if (!response.ok() && ended > 0) {
      return base::Annotate(response.status(), absl::StrCat(name, ", after ", ended, " episodes were ended"));
    }
    if (!response.ok()) return gateways.size() == 1 ? response.status() : base::Annotate(response.status(), name);
    ended += response->ended();
  }
  return ended;
}

}  // namespace

UncalledEpisodes AskUncalled(const Gateways& gateways) {
  UncalledEpisodes uncalled;
  v1::GatewayStatusResponse& all = uncalled.all;
  for (const auto& [name, gateway] : gateways) {
    const absl::StatusOr<v1::GatewayStatusResponse> status = gateway->Status();
    if (!status.ok()) {
      uncalled.silent.push_back(absl::StrCat(name, ": ", status.status().message()));
      continue;
    }
    all.set_uncalled_episodes(all.uncalled_episodes() + status->uncalled_episodes());
    all.set_oldest_uncalled_ms(std::max(all.oldest_uncalled_ms(), status->oldest_uncalled_ms()));
    all.mutable_uncalled()->MergeFrom(status->uncalled());
  }
  std::ranges::stable_sort(*all.mutable_uncalled(), std::ranges::greater(), &v1::UncalledEpisode::age_ms);
  return uncalled;
}

std::string DescribeUncalled(const v1::GatewayStatusResponse& status) {
  const int64_t count = status.uncalled_episodes(), seconds = status.oldest_uncalled_ms() / 1000;
  if (count <= 0) return "";
  if (count == 1) return absl::StrCat("1 episode has made no call yet (", seconds, " s old)");
  return absl::StrCat(count, " episodes have made no call yet (oldest ", seconds, " s)");
}

absl::Status CheckEpisodeId(const std::string& episode_id) {
  if (episode_id.size() <= kMaxId && base::IsPrintable(episode_id)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", base::Printable(episode_id, {.max_bytes = 80}),
                   "' is not the id of an episode: `ingot episodes list RUN` prints ids"));
}

absl::StatusOr<int64_t> EndUncalled(const Gateways& gateways, const std::string& episode_id, const std::string& key) {
  INGOT_RETURN_IF_ERROR(CheckEpisodeId(episode_id));  // gRPC accepts only UTF-8
  v1::EndUncalledRequest request;
  request.set_episode_id(episode_id);
  request.set_admin_key(key);
  if (episode_id.empty()) return EndAll(gateways, request);
  absl::Status silent, unknown;
  for (const auto& [name, gateway] : gateways) {
    const auto response = gateway->EndUncalled(request);
    if (response.ok()) return response->ended();
    if (absl::IsNotFound(response.status())) {
      unknown = response.status();
    } else if (absl::IsUnavailable(response.status()) || absl::IsDeadlineExceeded(response.status())) {
      silent = absl::UnavailableError(absl::StrCat(name, " does not answer: ", response.status().message()));
    } else {
      return response.status();
    }
  }
  if (!silent.ok()) return silent;
  return unknown.ok() ? absl::NotFoundError("this run has no gateway") : unknown;
}

}  // namespace ingot::app
