// Serves the page for a run or a folder of runs over HTTP on its own listener: its files (bundle.h), and answers from a
// RunView or RunIndex. Every target requires a key (access.h) and returns 401 without it. The page is read-only with
// one exception: with the run's admin key, POST /api/end_uncalled ends episodes that have made no call. All other
// methods except GET and HEAD return 405.
//
// One low-priority thread computes the answers, so serving the page barely slows down training. Start returns the same
// errors as http::Server::Listen. Thread safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/executor.h"
#include "base/status.h"
#include "http/server.h"
#include "view/access.h"
#include "view/answers.h"
#include "view/runs/run_view.h"

namespace ingot::view {

class Page final : public http::Handler {
 public:
  // Uses only host, port, and TLS from `options`. `key` is passed to Access.
  static absl::StatusOr<std::unique_ptr<Page>> Start(http::Options options, std::string key, RunSource source);
  static absl::StatusOr<std::unique_ptr<Page>> Start(http::Options options, std::string key,
                                                     std::unique_ptr<Answers> answers);

  // Returns a one-time link to the page.
  std::string NewLink();
  int port() const { return server_->port(); }

  // http::Handler
  http::Opening Head(http::RequestHead head) override;

 private:
  // Computes an answer, which may block, on the page's thread.
  http::Work OnThread(std::function<absl::StatusOr<std::string>()> answer);
  Page(bool secure, std::string key, std::unique_ptr<Answers> answers)
      : secure_(secure), access_(std::move(key)), answers_(std::move(answers)) {}

  const bool secure_;
  Access access_;
  const std::unique_ptr<Answers> answers_;
  base::Executor thread_{{.name = "page", .max_queued = 256}};
  std::unique_ptr<http::Server> server_;  // declared last, so it is stopped first
};

}  // namespace ingot::view
