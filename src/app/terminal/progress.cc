#include "app/terminal/progress.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "app/terminal/screen.h"
#include "base/log.h"
#include "base/printable.h"

namespace ingot::app {
namespace {

constexpr int kCells = 20;

}  // namespace

std::string FormatProgress(const std::string& name, const std::string& what, int64_t done, int64_t total) {
  std::string line = name.empty() ? "" : name + " ";
  if (total > 0) {
    const int filled = static_cast<int>(kCells * std::clamp<int64_t>(done, 0, total) / total);
    for (int i = 0; i < kCells; ++i) line += i < filled ? "━" : "╌";
    line += fmt::format(" {}/{} ", done, total);
  }
  return line + base::Printable(what);
}

Progress::Progress(std::string name, std::FILE* out, const base::Clock& clock, int terminal)
    : name_(std::move(name)),
      out_(out),
      clock_(clock),
      terminal_(terminal < 0 ? ScreenOf(out).replaces : terminal != 0),
      start_(clock.Now()),
      drawn_(start_) {
  if (terminal_) thread_ = std::thread([this] { DrawAgain(); });
}

Progress::~Progress() {
  {
    const base::MutexLock lock(mu_);
    ends_ = true;
    ended_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
  Clear();
}

void Progress::Show(const std::string& what, int64_t done, int64_t total) {
  if (!terminal_) return;
  const base::MutexLock lock(mu_);
  line_ = FormatProgress(name_, what, done, total);
  const std::chrono::nanoseconds now = clock_.Now();
  if (now - start_ < kAfter || (stands_ && now - drawn_ < kEvery)) return;
  Draw(now);
}

void Progress::Clear() {
  const base::MutexLock lock(mu_);
  line_.reset();
  if (!stands_) return;
  std::fprintf(out_, "\r\033[K");
  std::fflush(out_);
  stands_ = false;
}

void Progress::DrawAgain() {
  const base::MutexLock lock(mu_);
  std::chrono::nanoseconds next = start_ + kAfter;
  while (!ends_) {
    if (clock_.WaitUntil(ended_, mu_, next) || ends_) continue;
    const std::chrono::nanoseconds now = clock_.Now();
    if (line_.has_value() && now - drawn_ >= kAgain) Draw(now);
    next = (stands_ ? drawn_ : now) + kAgain;
  }
}

void Progress::Draw(std::chrono::nanoseconds now) {
  const auto passed = std::chrono::duration_cast<std::chrono::seconds>(now - start_);
  std::fprintf(out_, "\r\033[K%s", Row(out_, *line_, fmt::format("  {} s", passed.count())).c_str());
  std::fflush(out_);
  drawn_ = now;
  stands_ = true;
}

bool OutputGoesElsewhere() { return isatty(STDERR_FILENO) == 1 && isatty(STDOUT_FILENO) != 1; }

}  // namespace ingot::app
