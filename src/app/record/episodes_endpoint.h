// Lists and ends the uncalled episodes of a run (app/run/uncalled_episodes.h) on RUN/sockets/episodes.sock. The process
// that drives the run serves it for `ingot episodes`. Only this user can open the file.
//
//   GET  /episodes       {"count": 2, "oldest_s": 161.0, "episodes": [{"episode": ID, "age_s", ...}], "silent": []}
//   POST /episodes/end   {"episode": ID} or {"all": true}, with the key as Authorization: Bearer: {"ended": 1}
//
// Errors are {"error": message, "code": absl::StatusCode}.
#pragma once

#include <memory>
#include <string>

#include "app/run/uncalled_episodes.h"
#include "base/executor.h"
#include "base/json.h"
#include "base/status.h"
#include "http/server.h"

namespace ingot::app {

// Thread safe. One thread calls the gateways.
class EpisodesEndpoint final : public http::Handler {
 public:
  // `folder` is RUN. Returns UNAVAILABLE if the socket file cannot be created.
  static absl::StatusOr<std::unique_ptr<EpisodesEndpoint>> Start(const std::string& folder, Gateways gateways);

  // http::Handler
  http::Opening Head(http::RequestHead head) override;

 private:
  explicit EpisodesEndpoint(Gateways gateways) : gateways_(std::move(gateways)) {}

  const Gateways gateways_;
  base::Executor thread_{{.name = "episodes", .max_queued = 16}};
  std::unique_ptr<http::Server> server_;  // declared last, so it stops first
};

// Send a command's requests. Both block. Both return UNAVAILABLE if no process serves the episodes of the run in
// `folder`. Other errors come from the response.
absl::StatusOr<base::json::value> AskForEpisodes(const std::string& folder);
// Returns the number of ended episodes. The parameters are as for app::EndUncalled.
absl::StatusOr<int64_t> AskToEnd(const std::string& folder, const std::string& episode_id, const std::string& key);

}  // namespace ingot::app
