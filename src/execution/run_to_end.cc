#include "execution/run_to_end.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <utility>

#include "base/mutex.h"

namespace ingot::execution {

absl::StatusOr<sandbox::Outcome> RunToEnd(Session& session, Program program, const std::string& stdin_text,
                                          int64_t output_bytes) {
  struct Waiting {
    base::Mutex mu;
    base::CondVar changed;
    bool has_news ABSL_GUARDED_BY(mu) = false;
  };
  const auto waiting = std::make_shared<Waiting>();
  program.has_input = !stdin_text.empty();
  INGOT_ASSIGN_OR_RETURN(const Session::Started started, session.Start(std::move(program), [waiting] {
    base::MutexLock lock(waiting->mu);
    waiting->has_news = true;
    waiting->changed.SignalAll();
  }));
  size_t fed = 0;
  sandbox::Outcome outcome;
  std::optional<ProcessEnd> end;
  while (!end.has_value()) {
    // In parts: a process takes its time to read.
    if (fed < stdin_text.size()) {
      const size_t part = std::min<size_t>(stdin_text.size() - fed, 64 << 10);
      if (const absl::Status sent = session.Send(*started.process, std::string_view(stdin_text).substr(fed, part));
          !absl::IsResourceExhausted(sent)) {
        fed = sent.ok() ? fed + part : stdin_text.size();
        if (fed == stdin_text.size()) session.CloseInput(*started.process).IgnoreError();
      }
    }
    {
      base::MutexLock lock(waiting->mu);
      const bool is_fed = fed >= stdin_text.size();
      if (!waiting->has_news && is_fed) waiting->changed.WaitFor(waiting->mu, std::chrono::seconds(30));
      if (!waiting->has_news && !is_fed) waiting->changed.WaitFor(waiting->mu, std::chrono::milliseconds(5));
      waiting->has_news = false;
    }
    const Subscription::News news = started.subscription->Take();
    for (const auto& chunk : news.chunks) {
      std::string& text = chunk->stream == Stream::kOut ? outcome.out : outcome.err;
      const auto room = static_cast<size_t>(output_bytes) - outcome.out.size() - outcome.err.size();
      text.append(chunk->bytes, 0, room);
      if (chunk->bytes.size() <= room || outcome.ending == sandbox::Ending::kOutputOverflow) continue;
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
  return outcome;
}

}  // namespace ingot::execution
