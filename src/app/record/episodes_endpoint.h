// The episodes of outside clients that have made no call, on RUN/sockets/episodes.sock: the process that drives a run
// serves it, and `ingot episodes` asks there. Only this user can open the file.
//
//   GET  /episodes       {"count": 2, "oldest_s": 161.0, "episodes": [{"episode": ID, "age_s", ...}], "silent": []}
//   POST /episodes/end   {"episode": ID} or {"all": true}, with the key as Authorization: Bearer: {"ended": 1}
//
// Errors are {"error": text, "code": an absl::StatusCode}.
#pragma once

#include <memory>
#include <string>

#include "app/run/uncalled_episodes.h"
#include "base/executor.h"
#include "base/json.h"
#include "base/status.h"
#include "http/server.h"

namespace ingot::app {

// Thread safe. One thread asks the gateways.
class EpisodesEndpoint final : public http::Handler {
 public:
  // `folder`: RUN. UNAVAILABLE: the file cannot be made.
  static absl::StatusOr<std::unique_ptr<EpisodesEndpoint>> Start(const std::string& folder, Gateways gateways);

  // http::Handler
  http::Opening Head(http::RequestHead head) override;

 private:
  explicit EpisodesEndpoint(Gateways gateways) : gateways_(std::move(gateways)) {}

  const Gateways gateways_;
  base::Executor thread_{{.name = "episodes", .max_queued = 16}};
  std::unique_ptr<http::Server> server_;  // last: it is stopped first
};

// The questions of a command. They block. UNAVAILABLE: no process serves the episodes of the run in `folder`; all other
// errors are its answer's.
absl::StatusOr<base::json::value> AskForEpisodes(const std::string& folder);
// Returns how many ended. Parameters as app::EndUncalled.
absl::StatusOr<int64_t> AskToEnd(const std::string& folder, const std::string& episode_id, const std::string& key);

}  // namespace ingot::app
