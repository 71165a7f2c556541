// Sends each step's metrics in bulk to a Trackio server, either self-hosted or in a Hugging Face Space. Each row has a
// unique id, so a row that is resent is not counted twice.
#pragma once

#include "loggers/logger.h"

namespace ingot::loggers {

struct TrackioOptions {
  std::string url;  // server URL, such as http://127.0.0.1:7860
  std::string project = "ingot";
  std::string write_token;  // token for a self-hosted server (TRACKIO_WRITE_TOKEN); empty = none
  std::string key;          // Hugging Face token for a Space; empty = none
};

class Trackio final : public Logger {
 public:
  Trackio(TrackioOptions options, std::string run, PostJson post)
      : options_(std::move(options)), run_(std::move(run)), post_(std::move(post)) {}
  std::string name() const override { return "trackio"; }
  absl::Status Rows(std::span<const view::Row> rows) override;

 private:
  const TrackioOptions options_;
  const std::string run_;
  const PostJson post_;
};

}  // namespace ingot::loggers
