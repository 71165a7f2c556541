// Serves a run's web page (src/view), either for a run that this process drives or for a run's folder.
//
// A process that serves its own run's page also listens on RUN/sockets/page.sock, which only this user can open, and
// returns new links to the page. `ingot view RUN` tries this socket first.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "app/cluster/role_clients.h"
#include "app/record/stored_run.h"
#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "base/status.h"
#include "view/page.h"

namespace ingot::app {

class LinkEndpoint;

class RunPage {
 public:
  ~RunPage();
  std::string NewLink() { return page_->NewLink(); }

  // The page calls the pool, the scheduler, and the engines in `clients`. `no_pool` is the reason why there is no pool,
  // if there is none. `trainer` is as in LiveState. Returns null without http.dashboard. If the page cannot listen,
  // this is an error if http.dashboard_port is set, and otherwise a warning.
  static absl::StatusOr<std::unique_ptr<RunPage>> OfRunning(const RunConfig& config, const RunDir& dir,
                                                            const RoleClients& clients,
                                                            std::shared_ptr<const text::Tokenizer> tokenizer,
                                                            const std::string& no_pool,
                                                            std::function<std::string()> trainer);
  // Serves a run from its files, with or without a pool. The pool is reopened when it becomes stale (FreshPool). TLS
  // comes from `options`, or else from the run's configuration. Errors name the options of `ingot view`.
  static absl::StatusOr<std::unique_ptr<RunPage>> OfFolder(const std::string& folder, http::Options options);
  // Serves the runs in `folder` (RunFoldersIn) from their files. TLS comes from `options`.
  static absl::StatusOr<std::unique_ptr<RunPage>> OfRuns(const std::string& folder, http::Options options);

 private:
  RunPage() = default;
  // Serves `answers` at the address passed to `ingot view`.
  static absl::StatusOr<std::unique_ptr<RunPage>> OfAnswers(http::Options options,
                                                            std::unique_ptr<view::Answers> answers);

  std::unique_ptr<view::Page> page_;
  std::unique_ptr<LinkEndpoint> links_;  // declared before the page
};

// Returns a new link to the page served by the process that drives the run in `folder`. Returns UNAVAILABLE if no
// process answers.
absl::StatusOr<std::string> RequestLink(const std::string& folder);

}  // namespace ingot::app
