#include "app/progress.h"

#include <unistd.h>

#include <algorithm>
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

}  // namespace ingot::app
