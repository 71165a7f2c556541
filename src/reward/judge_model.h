// Interface to a judge term's model. Implemented over HTTP in src/app and by functions in tests.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ingot::reward {

// A judge's server: any server with OpenAI's chat completions API.
struct JudgeServer {
  std::string url;  // URL such as "https://host/v1"; empty = `model` is a pinned or external model in gateway.models
  std::string
      model;  // the model's name there; must be pinned if it is this run's model, so that its verdicts do not drift
  std::string key_file;
  double timeout_s = 60;      // per request
  int32_t max_tokens = 2048;  // per response
};

struct JudgeQuestion {
  std::string system;
  std::string user;
  std::string schema_json;  // JSON Schema of the response
};

class JudgeModel {
 public:
  virtual ~JudgeModel() = default;

  // Returns the text of the model's response at temperature 0. Blocks up to server.timeout_s. Thread safe. Every error
  // means that there is no usable response. Retry only after UNAVAILABLE or DEADLINE_EXCEEDED.
  virtual absl::StatusOr<std::string> Ask(const JudgeServer& server, const JudgeQuestion& question) const = 0;
};

}  // namespace ingot::reward
