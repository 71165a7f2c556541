// Sends OpenTelemetry traces over OTLP/HTTP in JSON (POST URL/v1/traces), with a span for each step, episode, call, and
// grade. Each episode is a trace. Its calls and its grade are child spans. Span ids are derived from the run's ids, so
// a span that is sent twice remains a single span.
#pragma once

#include <vector>

#include "base/json.h"
#include "loggers/logger.h"

namespace ingot::loggers {

struct OtlpOptions {
  std::string url;  // collector URL, such as http://127.0.0.1:4318
  std::string key;  // bearer token; empty = none
};

class Otlp final : public Logger {
 public:
  Otlp(OtlpOptions options, std::string run, PostJson post)
      : options_(std::move(options)), run_(std::move(run)), post_(std::move(post)) {}
  std::string name() const override { return "otlp"; }
  absl::Status Rows(std::span<const view::Row> rows) override;
  bool wants_groups() const override { return true; }
  absl::Status Group(const v1::Group& group, const view::JournalGroup& journalled) override;

 private:
  absl::Status Send(base::json::array spans);

  const OtlpOptions options_;
  const std::string run_;
  const PostJson post_;
};

// Returns the spans for a group's episodes. Pure.
base::json::array SpansOf(const std::string& run, const v1::Group& group, const view::JournalGroup& journalled);
// Returns a step's span. Pure.
base::json::object SpanOf(const std::string& run, const view::Row& row);

}  // namespace ingot::loggers
