#include "app/progress.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "base/printable.h"

namespace ingot::app {
namespace {

constexpr int kCells = 20;

}  // namespace

std::string FormatProgress(const std::string& name, const std::string& what, int64_t done, int64_t total) {
  std::string line = name + " ";
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
      terminal_(terminal < 0 ? isatty(fileno(out)) == 1 : terminal != 0),
      start_(clock.Now()) {}

void Progress::Show(const std::string& what, int64_t done, int64_t total) {
  if (!terminal_) return;
  const std::chrono::nanoseconds now = clock_.Now();
  if (now - start_ < kAfter || (stands_ && now - drawn_ < kEvery)) return;
  std::fprintf(out_, "\r\033[K%s", FormatProgress(name_, what, done, total).c_str());
  std::fflush(out_);
  drawn_ = now;
  stands_ = true;
}

void Progress::Clear() {
  if (!stands_) return;
  std::fprintf(out_, "\r\033[K");
  std::fflush(out_);
  stands_ = false;
}

bool OutputGoesElsewhere() { return isatty(STDERR_FILENO) == 1 && isatty(STDOUT_FILENO) != 1; }

Underway::Underway(std::string what, std::FILE* out, int terminal, std::chrono::milliseconds after,
                   std::chrono::milliseconds every) {
  if (terminal < 0 ? isatty(fileno(out)) != 1 : terminal == 0) return;
  thread_ = std::jthread([what = base::Printable(what), out, after, every](const std::stop_token& stop) {
    const auto start = std::chrono::steady_clock::now();
    std::mutex mu;
    std::condition_variable_any ended;
    std::unique_lock lock(mu);
    bool stands = false;
    for (auto next = start + after; !ended.wait_until(lock, stop, next, [] { return false; }) && !stop.stop_requested();
         next += every) {
      const auto passed = std::chrono::duration_cast<std::chrono::seconds>(next - start);
      std::fprintf(out, "\r\033[K%s  %lld s", what.c_str(), static_cast<long long>(passed.count()));
      std::fflush(out);
      stands = true;
    }
    if (stands) std::fprintf(out, "\r\033[K");
    std::fflush(out);
  });
}

Underway::~Underway() = default;

}  // namespace ingot::app
