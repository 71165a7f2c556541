#include "execution/run_to_end.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>
#include <utility>

#include "sandbox/spawn.h"

namespace ingot::execution {
namespace {

// Blocks until `bell` is signaled, `cancel` is canceled, or the time has passed.
void Await(const sandbox::Fd& bell, const sandbox::Cancellation* cancel, int milliseconds) {
  pollfd fds[2] = {{bell.get(), POLLIN, 0}, {cancel == nullptr ? -1 : cancel->fd(), POLLIN, 0}};
  poll(fds, 2, milliseconds);
  uint64_t rings = 0;
  [[maybe_unused]] const ssize_t got = read(bell.get(), &rings, sizeof(rings));
}

}  // namespace

absl::StatusOr<sandbox::Outcome> RunToEnd(Session& session, Program program, const std::string& stdin_text,
                                          int64_t output_bytes, const sandbox::Cancellation* cancel) {
  const auto bell = std::make_shared<sandbox::Fd>(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell->valid()) return sandbox::ErrnoStatus(errno, "cannot create a program's eventfd");
  program.has_input = !stdin_text.empty();
  INGOT_ASSIGN_OR_RETURN(const Session::StartedProgram started, session.Start(std::move(program), [bell] {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(bell->get(), &one, sizeof(one));
  }));
  size_t fed = 0;
  sandbox::Outcome outcome;
  std::optional<ProcessEnd> end;
  while (!end.has_value()) {
    // Sent in parts, because a process may read slowly.
    if (fed < stdin_text.size()) {
      const size_t part = std::min<size_t>(stdin_text.size() - fed, 64 << 10);
      if (const absl::Status sent = session.Send(*started.process, std::string_view(stdin_text).substr(fed, part));
          !absl::IsResourceExhausted(sent)) {
        fed = sent.ok() ? fed + part : stdin_text.size();
        if (fed == stdin_text.size()) session.CloseInput(*started.process).IgnoreError();
      }
    }
    Await(*bell, cancel, fed < stdin_text.size() ? 5 : 30'000);
    if (cancel != nullptr && cancel->cancelled()) {
      session.Signal(*started.process, SIGKILL);
      return absl::CancelledError("the program was cancelled");
    }
    const Subscription::News news = started.subscription->TakeNews();
    for (const auto& chunk : news.chunks) {
      std::string& text = chunk->stream == Stream::kOut ? outcome.out : outcome.err;
      const auto left = static_cast<size_t>(output_bytes) - outcome.out.size() - outcome.err.size();
      text.append(chunk->bytes, 0, left);
      if (chunk->bytes.size() <= left || outcome.ending == sandbox::Ending::kOutputOverflow) continue;
      outcome.ending = sandbox::Ending::kOutputOverflow;
      session.Signal(*started.process, SIGKILL);
    }
    end = news.end;
  }
  if (end->ending == sandbox::Ending::kCancelled) return absl::UnavailableError(end->why);
  if (outcome.ending != sandbox::Ending::kOutputOverflow) {
    outcome.ending = end->ending;
    outcome.exit_code = end->exit_code;
    outcome.signal = end->signal;
  }
  outcome.wall = end->wall;
  outcome.cpu = end->cpu;
  outcome.max_rss_bytes = end->max_rss_bytes;
  outcome.memory_kills = end->memory_kills;
  return outcome;
}

}  // namespace ingot::execution
