#include "app/terminal/terminal.h"

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "base/printable.h"

namespace ingot::app {
namespace {

constexpr int kBarCells = 20;
constexpr char kUnknown[] = "-";

double Get(const std::map<std::string, double>& metrics, const std::string& name) {
  const auto found = metrics.find(name);
  return found == metrics.end() ? std::nan("") : found->second;
}

std::string Duration(double seconds) {
  if (!std::isfinite(seconds)) return kUnknown;
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
}

std::string Number(double value, const char* unit = "") {
  if (!std::isfinite(value)) return kUnknown;
  if (std::abs(value) >= 10000) return fmt::format("{:.1f}k{}", value / 1000, unit);
  return fmt::format("{:.0f}{}", value, unit);
}

}  // namespace

std::string FormatNumber(const std::string& number, double value) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(number), value) : kUnknown;
}

std::string FormatStep(const std::string& run_name, int64_t step, int64_t total_steps,
                       const std::map<std::string, double>& metrics, double eta_s, const Figures& figures) {
  const int cells = total_steps > 0 ? static_cast<int>(kBarCells * (step + 1) / total_steps) : kBarCells;
  std::string bar;
  for (int i = 0; i < kBarCells; ++i) bar += i < cells ? "━" : "╌";
  const auto show = [&](const char* number, const char* name) { return FormatMetric(number, metrics, name); };
  std::string learns;
  for (const Figure& figure : figures) learns += figure.name + " " + show("{:.3f}", figure.metric.c_str()) + "  ";
  const auto percent = [&](const char* name) { return FormatNumber("{:.0f}%", 100 * Get(metrics, name)); };
  return fmt::format(
      "{} {} {:>3}/{}  {}stale {}/{}  window {}+{}/{}  {} tok/s  {}  idle train {} roll {}  mismatch {}  eta "
      "{}",
      run_name, bar, step + 1, total_steps, learns, show("{:.1f}", "async/staleness_mean"),
      show("{:.0f}", "async/staleness_max"), show("{:.0f}", "scheduler/head"), show("{:.0f}", "scheduler/window"),
      show("{:.0f}", "scheduler/budget"), Number(Get(metrics, "perf/tokens_per_second")), FormatSpeedup(metrics),
      percent("trainer/idle_ratio"), percent("rollout/idle_ratio"), show("{:.1e}", "mismatch/logprob_abs_diff_max"),
      Duration(eta_s));
}

std::string FormatMetric(const std::string& number, const std::map<std::string, double>& metrics,
                         const std::string& name) {
  return FormatNumber(number, Get(metrics, name));
}

std::string FormatSpeedup(const std::map<std::string, double>& metrics) {
  return fmt::format("tree {} of {} ({})", FormatMetric("{:.1f}x", metrics, "tree/speedup"),
                     FormatMetric("{:.1f}x", metrics, "tree/speedup_bound"),
                     FormatNumber("{:.0f}%", 100 * Get(metrics, "perf/of_bound")));
}

std::string Sparkline(const std::vector<double>& values) {
  static const char* const kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string line;
  for (const double value : values) {
    if (!std::isfinite(value)) {
      line += " ";
      continue;
    }
    line += kBlocks[std::clamp(static_cast<int>(value * 8), 0, 7)];
  }
  return line;
}

std::string FormatStage(const std::string& stage, int64_t done, int64_t total, const std::string& figure, int64_t timed,
                        double seconds) {
  const double rate = timed > 0 && seconds > 0 ? static_cast<double>(timed) / seconds : std::nan("");
  return fmt::format("{} {:>4}/{}  {}  {} steps/s  remaining {}", stage, done, total, figure,
                     FormatNumber("{:.3g}", rate), Duration(static_cast<double>(total - done) / rate));
}

StepLine::StepLine(std::FILE* out, std::string run_name, int64_t total_steps, const base::Clock& clock, Figures figures)
    : out_(out),
      run_name_(std::move(run_name)),
      total_steps_(total_steps),
      figures_(std::move(figures)),
      screen_(ScreenOf(out)),
      clock_(clock) {}

StepLine::~StepLine() {
  const base::MutexLock lock(mu_);
  if (progress_stands_) std::fputs("\n", out_);
}

void StepLine::Step(int64_t step, const std::map<std::string, double>& metrics, double elapsed_s) {
  const base::MutexLock lock(mu_);
  if (first_elapsed_s_ < 0) {
    first_elapsed_s_ = elapsed_s;
    first_step_ = step;
  }
  const int64_t done = step - first_step_;
  const double eta = done > 0 ? (elapsed_s - first_elapsed_s_) / static_cast<double>(done) *
                                    static_cast<double>(total_steps_ - step - 1)
                              : std::nan("");
  Print("\033[36m", FormatStep(run_name_, step, total_steps_, metrics, eta, figures_));
}

void StepLine::Note(const std::string& text) {
  const base::MutexLock lock(mu_);
  Print("\033[1m", text);
}

void StepLine::Print(const char* colour, const std::string& text) {
  constexpr char kClearLine[] = "\r\033[K";
  std::fprintf(out_, "%s%s%s%s\n", progress_stands_ ? kClearLine : "", screen_.colours ? colour : "",
               base::Printable(text).c_str(), screen_.colours ? "\033[0m" : "");
  std::fflush(out_);
  progress_stands_ = false;
}

void StepLine::Replace(const std::string& text) {
  std::fprintf(out_, "\r\033[K%s", Row(out_, base::Printable(text)).c_str());
  std::fflush(out_);
  progress_stands_ = true;
}

void StepLine::Working(const std::function<std::string()>& text) {
  const base::MutexLock lock(mu_);
  const std::string line = text();
  if (line.empty()) return;
  screen_.replaces ? Replace(line) : Print("", line);
}

void StepLine::Progress(const std::string& text) {
  const base::MutexLock lock(mu_);
  if (screen_.replaces) return Replace(text);
  const auto now = clock_.Now();
  if (!plain_progress_at_.has_value()) plain_progress_at_ = now;
  if (now - *plain_progress_at_ < kPlainProgressEvery) return;
  plain_progress_at_ = now;
  Print("", text);
}

}  // namespace ingot::app
