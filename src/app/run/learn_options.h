// Configures training on the traffic of users (`ingot serve --learn`).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "reward/judge_model.h"

namespace ingot::base {
class Schema;
}

namespace ingot::app {

// A model that reads feedback from a user's next message (learning/feedback_judge.h).
struct LearnJudgeOptions {
  reward::JudgeServer server;  // an empty model = no judge
  int32_t concurrency = 4;     // requests at once
  double satisfied = 1;        // reward of an answer by verdict
  double dissatisfied = 0;

  bool on() const { return !server.model.empty(); }
};

void Bind(base::Schema& schema, LearnJudgeOptions& options);

struct LearnOptions {
  std::string users_file;  // empty = the configuration is not for `ingot serve --learn`
  int64_t round_answers = 64;
  double round_seconds = 0;
  std::vector<std::string> require = {"reward_mean >= best - 0.02"};  // view/evaluation/requirement.h
  int64_t max_rejected = 10;
  int64_t max_answers = 1'000'000;
  LearnJudgeOptions judge;

  bool on() const { return !users_file.empty(); }
};

void Bind(base::Schema& schema, LearnOptions& options);

}  // namespace ingot::app
