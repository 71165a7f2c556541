// The model that a judge term asks. An interface: src/app implements it over HTTP; tests use a function.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ingot::reward {

// The server of a judge: any server with OpenAI's chat completions.
struct JudgeServer {
  std::string url;    // such as "https://host/v1"; empty = `model` is a pinned or external model of gateway.models
  std::string model;  // its name there; a model of this run must be pinned, so that its verdicts do not drift
  std::string key_file;
  double timeout_s = 60;      // of one request
  int32_t max_tokens = 2048;  // of one answer
};

struct JudgeQuestion {
  std::string system;
  std::string user;
  std::string schema_json;  // JSON Schema of the answer
};

class JudgeModel {
 public:
  virtual ~JudgeModel() = default;

  // The text of the model's answer at temperature 0. Blocks up to server.timeout_s; thread safe. Any error means that
  // there is no answer; a retry may help only after UNAVAILABLE and DEADLINE_EXCEEDED.
  virtual absl::StatusOr<std::string> Ask(const JudgeServer& server, const JudgeQuestion& question) const = 0;
};

}  // namespace ingot::reward
