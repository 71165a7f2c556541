#include "view/rows.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/json.h"

namespace ingot::view {
namespace {

constexpr size_t kTailBytes = 96;
constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();

struct File {
  ~File() {
    if (fd >= 0) ::close(fd);
  }
  const int fd;
};

// Returns bytes [from, from + count) of the file, or fewer at the end.
absl::StatusOr<std::string> ReadAt(int fd, int64_t from, size_t count) {
  std::string bytes(count, '\0');
  size_t got = 0;
  while (got < count) {
    const ssize_t n = ::pread(fd, bytes.data() + got, count - got, from + static_cast<int64_t>(got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::UnavailableError(std::strerror(errno));
    if (n == 0) break;
    got += static_cast<size_t>(n);
  }
  bytes.resize(got);
  return bytes;
}

}  // namespace

double Row::Get(const std::string& name, double otherwise) const {
  const auto found = values.find(name);
  return found == values.end() ? otherwise : found->second;
}

absl::Status Rows::Refresh() {
  base::MutexLock lock(mu_);
  const File file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0 && errno == ENOENT) {
    Clear();
    return absl::OkStatus();
  }
  const auto failed = [&](const std::string& why) {
    return absl::UnavailableError(absl::StrCat("cannot read ", path_, ": ", why));
  };
  struct stat what{};
  if (file.fd < 0 || ::fstat(file.fd, &what) != 0) return failed(std::strerror(errno));
  const int64_t tail_at = offset_ - static_cast<int64_t>(tail_.size());
  const absl::StatusOr<std::string> tail = ReadAt(file.fd, tail_at, tail_.size());
  if (!tail.ok()) return failed(std::string(tail.status().message()));
  if (*tail != tail_) Clear();
  if (what.st_size <= offset_) return absl::OkStatus();
  const absl::StatusOr<std::string> added = ReadAt(file.fd, offset_, static_cast<size_t>(what.st_size - offset_));
  if (!added.ok()) return failed(std::string(added.status().message()));
  const std::string_view text = *added;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string_view::npos; begin = end + 1) {
    Add(text.substr(begin, end - begin));
  }
  if (begin == 0) return absl::OkStatus();
  offset_ += static_cast<int64_t>(begin);
  tail_ = std::string(text.substr(begin - std::min(begin, kTailBytes), std::min(begin, kTailBytes)));
  return absl::OkStatus();
}

void Rows::Clear() {
  offset_ = broken_ = 0;
  tail_.clear();
  steps_.clear();
  times_.clear();
  columns_.clear();
}

void Rows::Add(std::string_view line) {
  const absl::StatusOr<base::json::value> parsed = base::ParseJson(line);
  const base::json::value* step = parsed.ok() ? base::Find(*parsed, "step") : nullptr;
  if (step == nullptr || !step->is_int64()) {
    ++broken_;
    return;
  }
  const base::json::value* time = base::Find(*parsed, "time");
  steps_.push_back(step->get_int64());
  times_.push_back(time != nullptr && time->is_number() ? time->to_number<double>() : 0);
  for (const auto& [key, value] : parsed->get_object()) {
    if (!value.is_number() || key == "step" || key == "time") continue;
    auto found = columns_.find(std::string(key));
    if (found == columns_.end()) {
      if (columns_.size() >= kMaxNames) continue;
      found = columns_.emplace(std::string(key), std::vector<double>()).first;
    }
    found->second.resize(steps_.size() - 1, kAbsent);
    found->second.push_back(value.to_number<double>());
  }
}

int64_t Rows::size() const {
  base::MutexLock lock(mu_);
  return std::ssize(steps_);
}

int64_t Rows::broken() const {
  base::MutexLock lock(mu_);
  return broken_;
}

std::vector<std::string> Rows::Names() const {
  base::MutexLock lock(mu_);
  std::vector<std::string> names;
  names.reserve(columns_.size());
  for (const auto& [name, values] : columns_) names.push_back(name);
  return names;
}

Curve Rows::CurveOf(const std::string& name, size_t points) const {
  base::MutexLock lock(mu_);
  Curve curve;
  const auto found = columns_.find(name);
  if (found == columns_.end()) return curve;
  std::vector<std::pair<int64_t, double>> present;
  for (size_t i = 0; i < found->second.size(); ++i) {
    if (!std::isnan(found->second[i])) present.emplace_back(steps_[i], found->second[i]);
  }
  std::stable_sort(present.begin(), present.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const size_t stride = (present.size() + points - 1) / points;
  for (size_t begin = 0; begin < present.size(); begin += stride) {
    const size_t end = std::min(begin + stride, present.size());
    double sum = 0, low = present[begin].second, high = low;
    for (size_t i = begin; i < end; ++i) {
      sum += present[i].second;
      low = std::min(low, present[i].second);
      high = std::max(high, present[i].second);
    }
    curve.steps.push_back(static_cast<double>(present[end - 1].first));
    curve.mean.push_back(sum / static_cast<double>(end - begin));
    curve.low.push_back(low);
    curve.high.push_back(high);
  }
  return curve;
}

Progress Rows::ProgressOf(size_t points) const {
  base::MutexLock lock(mu_);
  Progress all;
  const auto steps = columns_.find("perf/step_seconds"), trained = columns_.find("batch/loss_tokens");
  if (steps == columns_.end()) return all;
  double begun = 0, tokens = 0;
  for (size_t i = 0; i < steps->second.size(); ++i) {
    if (std::isnan(steps->second[i])) continue;
    if (all.steps.empty()) begun = times_[i] - steps->second[i];
    const bool has = trained != columns_.end() && i < trained->second.size() && !std::isnan(trained->second[i]);
    tokens += has ? trained->second[i] : 0;
    all.steps.push_back(static_cast<double>(steps_[i]));
    all.seconds.push_back(times_[i] - begun);
    all.tokens.push_back(tokens);
  }
  const size_t stride = (all.steps.size() + points - 1) / points;
  if (stride <= 1) return all;
  Progress some;
  for (size_t begin = 0; begin < all.steps.size(); begin += stride) {
    const size_t last = std::min(begin + stride, all.steps.size()) - 1;
    some.steps.push_back(all.steps[last]);
    some.seconds.push_back(all.seconds[last]);
    some.tokens.push_back(all.tokens[last]);
  }
  return some;
}

Row Rows::RowAt(size_t index) const {
  Row row{steps_[index], times_[index], {}};
  for (const auto& [column, values] : columns_) {
    if (index < values.size() && !std::isnan(values[index])) row.values.emplace(column, values[index]);
  }
  return row;
}

std::vector<Row> Rows::After(double time, size_t count) const {
  base::MutexLock lock(mu_);
  std::vector<Row> rows;
  for (size_t i = 0; i < times_.size() && rows.size() < count; ++i) {
    if (times_[i] > time) rows.push_back(RowAt(i));
  }
  return rows;
}

std::vector<Row> Rows::Last(const std::string& name, size_t count) const {
  base::MutexLock lock(mu_);
  const auto wanted = columns_.find(name);
  std::vector<Row> rows;
  if (wanted == columns_.end()) return rows;
  for (size_t i = wanted->second.size(); i > 0 && rows.size() < count; --i) {
    if (std::isnan(wanted->second[i - 1])) continue;
    rows.push_back(RowAt(i - 1));
  }
  std::reverse(rows.begin(), rows.end());
  return rows;
}

}  // namespace ingot::view
