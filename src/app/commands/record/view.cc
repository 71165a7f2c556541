// `ingot view`: serves a run's web page, from the process that drives the run or from the run's files.
#include "app/commands/record/view.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>

#include "app/record/run_list.h"
#include "app/record/run_page.h"
#include "app/run/process.h"
#include "app/terminal/progress.h"
#include "base/log.h"

namespace ingot::app {
namespace {

// Waits up to `timeout` for a line on standard input. Returns false if none arrived or the input has ended.
bool LineEntered(std::chrono::milliseconds timeout) {
  static bool ended = false;
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  if (ended || poll(&input, 1, static_cast<int>(timeout.count())) <= 0) {
    if (ended) std::this_thread::sleep_for(timeout);
    return false;
  }
  std::array<char, 256> line;
  const ssize_t got = read(STDIN_FILENO, line.data(), line.size());
  ended = got <= 0;
  return !ended;
}

absl::Status ViewOrError(const ViewArgs& args) {
  std::optional<Underway> reading("view: reading " + args.run_dir);
  const bool many = !RunFoldersIn(args.run_dir).empty();
  if (!args.files && !many) {
    const absl::StatusOr<std::string> link = RequestLink(args.run_dir);
    if (link.ok()) {
      reading.reset();
      std::printf("%s\nthe run is active; this is a new link to its page. --files reads its files instead\n",
                  link->c_str());
      return absl::OkStatus();
    }
  }
  base::InitLogging("view", "warn", "");
  http::Options options;
  options.host = args.host;
  options.port = args.port;
  options.tls_certificate = args.tls_certificate;
  options.tls_key = args.tls_key;
  options.allow_plaintext = args.allow_plaintext;
  options.allow_hosts = args.allow_hosts;
  options.allow_origins = args.allow_origins;
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<RunPage> page,
                         many ? RunPage::OfRuns(args.run_dir, options) : RunPage::OfFolder(args.run_dir, options));
  reading.reset();
  std::printf("%s\nthe link opens the page once; press Enter for another link, or Ctrl-C to stop\n",
              page->NewLink().c_str());
  std::fflush(stdout);
  while (!StopFlag()) {
    if (LineEntered(std::chrono::milliseconds(200))) std::printf("%s\n", page->NewLink().c_str());
  }
  return absl::OkStatus();
}

}  // namespace

int View(const ViewArgs& args) {
  HandleSignals();
  const absl::Status status = ViewOrError(args);
  return status.ok() ? 0 : Fail(status);
}

}  // namespace ingot::app
