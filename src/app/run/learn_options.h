// Configures training on the traffic of users (`ingot serve --learn`).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace ingot::base {
class Schema;
}

namespace ingot::app {

struct LearnOptions {
  std::string users_file;  // empty = the configuration is not for `ingot serve --learn`
  int64_t round_answers = 64;
  double round_seconds = 0;
  std::vector<std::string> require = {"reward_mean >= best - 0.02"};  // view/evaluation/requirement.h
  int64_t max_rejected = 10;
  int64_t max_answers = 1'000'000;

  bool on() const { return !users_file.empty(); }
};

void Bind(base::Schema& schema, LearnOptions& options);

}  // namespace ingot::app
