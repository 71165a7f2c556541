#include "base/run_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/record_name.h"

namespace ingot::base {
namespace {

constexpr size_t kMaxName = 1024;  // limit in bytes on a metric name in the record

absl::Status IoError(std::string_view what, const std::string& path) {
  return absl::UnavailableError(absl::StrCat("cannot ", View(what), " ", path, ": ", std::strerror(errno)));
}

// Converts errors to UNAVAILABLE because any failure to write may be temporary.
absl::Status Retried(const absl::Status& status) {
  return status.ok() ? status : absl::UnavailableError(status.message());
}

// The log lines that a resumed run keeps.
struct OldLines {
  std::string text;                 // including newlines
  std::vector<json::object> ahead;  // lines with step >= resume_step
};

OldLines LinesToKeep(std::string_view text, const RunLogOptions& options, const std::string& path) {
  OldLines kept;
  int64_t broken = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      INGOT_LOG(info, "{}: removed its last line, which was incomplete when the run ended", path);
      break;
    }
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const auto value = ParseJson(line);
    const json::value* step = value.ok() ? Find(*value, "step") : nullptr;
    if (step == nullptr || !step->is_int64()) {
      ++broken;
      continue;
    }
    const json::value* version = Find(*value, "version");
    const bool ahead = step->get_int64() >= options.resume_step;
    if (ahead && (version == nullptr || !version->is_int64() || version->get_int64() > options.keep_version)) continue;
    kept.text.append(line).push_back('\n');
    if (ahead) kept.ahead.push_back(value->get_object());
  }
  if (broken > 0) INGOT_LOG(warn, "{}: removed {} line(s) that are not a JSON object with a step", path, broken);
  return kept;
}

// Truncates the log as described in RunLog::Open. Returns the remaining lines with step >= resume_step.
absl::StatusOr<std::vector<json::object>> CutForResume(const RunLogOptions& options, const std::string& path) {
  const auto report_loss = [&](std::string_view how) {
    if (options.resume_step <= 0) return;
    INGOT_LOG(warn, "{} {}: the record restarts at step {}, without the earlier steps", path, how, options.resume_step);
  };
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    report_loss("is gone");
    return std::vector<json::object>();
  }
  std::ostringstream buffer;
  buffer << in.rdbuf();
  const std::string text = std::move(buffer).str();
  if (options.resume_step < 0) {
    if (text.empty()) return std::vector<json::object>();
    return absl::FailedPreconditionError(
        absl::StrCat(path, " already contains a run's metrics: resume that run, or choose another folder"));
  }
  OldLines kept = LinesToKeep(text, options, path);
  if (kept.text.empty()) report_loss("has no line of an earlier step");
  if (kept.text != text) INGOT_RETURN_IF_ERROR(Retried(ReplaceFile(path, kept.text)));
  return std::move(kept.ahead);
}

void Flatten(const std::string& prefix, const json::object& fields, Scalars& scalars) {
  for (const auto& field : fields) {
    const std::string name = absl::StrCat(prefix, std::string(field.key()));
    const json::value& value = field.value();
    if (value.is_object()) {
      Flatten(name + "/", value.get_object(), scalars);
    } else if (value.is_double()) {
      scalars.emplace_back(name, value.get_double());
    } else if (value.is_int64()) {
      scalars.emplace_back(name, static_cast<double>(value.get_int64()));
    } else if (value.is_uint64()) {
      scalars.emplace_back(name, static_cast<double>(value.get_uint64()));
    } else if (value.is_bool()) {
      scalars.emplace_back(name, value.get_bool() ? 1.0 : 0.0);
    }
  }
}

// Returns `fields` with names that all readers of the record accept. Signal, domain, and scaffold names come from
// agents and tasks.
json::object WithPrintableNames(const json::object& fields) {
  json::object named;
  for (const auto& field : fields) {
    const std::string name = Printable(std::string_view(field.key()), {.max_bytes = kMaxName});
    named[name] =
        field.value().is_object() ? json::value(WithPrintableNames(field.value().get_object())) : field.value();
  }
  return named;
}

// Returns a line's numbers, except for "step" and "time".
Scalars ScalarsOf(const json::object& line) {
  Scalars scalars;
  Flatten("", line, scalars);
  std::erase_if(scalars, [](const auto& scalar) { return scalar.first == "step" || scalar.first == "time"; });
  return scalars;
}

}  // namespace

absl::Status RunLogOptions::Validate() const {
  if (directory.empty()) return absl::InvalidArgumentError("run log: the directory is empty");
  if (max_labels < 1) return absl::InvalidArgumentError("run log: max_labels must be at least 1");
  return absl::OkStatus();
}

RunLog::RunLog(std::string path, int fd, std::unique_ptr<TfEventsWriter> events, TagBound tags, Metrics* metrics,
               const Clock& clock)
    : path_(std::move(path)),
      fd_(fd),
      metrics_(metrics),
      clock_(clock),
      events_(std::move(events)),
      tags_(std::move(tags)) {}

RunLog::~RunLog() { close(fd_); }

absl::StatusOr<std::unique_ptr<RunLog>> RunLog::Open(const RunLogOptions& options, Metrics* metrics,
                                                     const Clock& clock) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  std::error_code error;
  std::filesystem::create_directories(options.directory, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat("cannot create folder ", options.directory, ": ", error.message()));
  }
  const std::string path = options.directory + "/metrics.jsonl";
  INGOT_ASSIGN_OR_RETURN(const std::vector<json::object> ahead, CutForResume(options, path));
  std::unique_ptr<TfEventsWriter> events;
  TagBound tags(static_cast<size_t>(options.max_labels));
  if (options.tensorboard) {
    INGOT_ASSIGN_OR_RETURN(events, TfEventsWriter::Create(options.directory + "/tensorboard",
                                                          std::max<int64_t>(options.resume_step, 0), clock));
    for (const json::object& line : ahead) {  // TensorBoard drops them at the session start
      INGOT_RETURN_IF_ERROR(events->WriteScalars(line.at("step").as_int64(), tags.Bound(ScalarsOf(line)).scalars));
    }
  }
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return IoError("open", path);
  std::unique_ptr<RunLog> log(new RunLog(path, fd, std::move(events), std::move(tags), metrics, clock));
  INGOT_RETURN_IF_ERROR(SyncDir(options.directory));
  return log;
}

absl::Status RunLog::Write(int64_t step, const json::object& fields) {
  json::object line;
  line["step"] = step;
  line["time"] = static_cast<double>(clock_.UnixNanos()) * 1e-9;
  for (const auto& field : WithPrintableNames(fields)) {
    if (field.key() != "step" && field.key() != "time") line[field.key()] = field.value();
  }
  const Scalars scalars = ScalarsOf(line);
  const std::string text = PrintJson(line) + "\n";

  MutexLock lock(mu_);
  const off_t start = lseek(fd_, 0, SEEK_END);
  absl::Status written = Retried(WriteAll(fd_, text, path_));
  if (written.ok() && fsync(fd_) != 0) written = IoError("fsync", path_);
  if (!written.ok()) {
    if (start < 0 || ftruncate(fd_, start) != 0) return Annotate(written, "the log now ends with an incomplete line");
    return written;
  }
  if (metrics_ != nullptr) {
    const auto set = [&](const std::string& name, double value) {
      const auto& [metric, labels] = ReadRecordName(name);
      metrics_->GetGauge("ingot_" + metric, "last value of " + metric + " in metrics.jsonl", labels).Set(value);
    };
    const bool newest = step >= newest_;
    if (newest) set("step", static_cast<double>(step));
    for (const auto& [name, value] : scalars) {
      if (newest || name != "version") set(name, value);
    }
  }
  newest_ = std::max(newest_, step);
  if (events_ != nullptr) {
    const TagBound::BoundedScalars tagged = tags_.Bound(scalars);
    if (tagged.others > 0 && metrics_ != nullptr) {
      metrics_
          ->GetCounter("ingot_tensorboard_tags_other_total",
                       "Numbers in metrics.jsonl that TensorBoard shows as \"other\".")
          .Increment(static_cast<double>(tagged.others));
    }
    if (const absl::Status status = events_->WriteScalars(step, tagged.scalars); !status.ok()) {
      INGOT_LOG(warn, "TensorBoard: {}", status.ToString());
    }
  }
  return absl::OkStatus();
}

}  // namespace ingot::base
