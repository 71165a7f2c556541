// The page of a run (src/view) as this program serves it: for a run that this process drives, or for a run's folder.
//
// A process that serves the page of its own run also answers on RUN/sockets/page.sock, which only this user can open,
// with a new link to the page. `ingot view RUN` asks there first.
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

  // The page calls the pool, the scheduler and the engines of `clients`; `no_pool` says why there is no pool.
  // `trainer`: as LiveState::trainer. Null
  // without http.dashboard. A page that cannot listen is an error with http.dashboard_port, and a warning otherwise.
  static absl::StatusOr<std::unique_ptr<RunPage>> OfRunning(const RunConfig& config, const RunDir& dir,
                                                            const RoleClients& clients,
                                                            std::shared_ptr<const text::Tokenizer> tokenizer,
                                                            const std::string& no_pool,
                                                            std::function<std::string()> trainer);
  // From the run's files, with or without a pool; the pool is opened again when it is old (FreshPool). TLS comes from
  // `options`, or else from the run's configuration. The error names the options of `ingot view`.
  static absl::StatusOr<std::unique_ptr<RunPage>> OfFolder(const std::string& folder, http::Options options);
  // Of the runs in `folder` (RunFoldersIn), from their files. TLS comes from `options`.
  static absl::StatusOr<std::unique_ptr<RunPage>> OfRuns(const std::string& folder, http::Options options);

 private:
  RunPage() = default;
  // The page at the address that `ingot view` was given.
  static absl::StatusOr<std::unique_ptr<RunPage>> OfAnswers(http::Options options,
                                                            std::unique_ptr<view::Answers> answers);

  std::unique_ptr<view::Page> page_;
  std::unique_ptr<LinkEndpoint> links_;  // before the page
};

// A new link to the page of the process that drives the run in `folder`. UNAVAILABLE: no process answers.
absl::StatusOr<std::string> AskForLink(const std::string& folder);

}  // namespace ingot::app
