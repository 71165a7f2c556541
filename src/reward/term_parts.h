// The servers and sandboxes that some terms need.
#pragma once

#include <memory>

#include "reward/external.h"
#include "reward/judge_model.h"
#include "reward/teacher_model.h"

namespace ingot::sandbox {
class Substrate;
}

namespace ingot::reward {

class Verdicts;  // terms/verdicts.h

// A term whose server is null makes every episode an error (FAILED_PRECONDITION); other terms need no server.
struct TermParts {
  std::shared_ptr<const JudgeModel> judge = nullptr;
  std::shared_ptr<const ExternalScorer> external = nullptr;
  std::shared_ptr<const TeacherModel> teacher = nullptr;
  std::shared_ptr<sandbox::Substrate> substrate = nullptr;  // of the term python
  std::shared_ptr<Verdicts> verdicts = nullptr;  // of judges; null = each term keeps its own verdicts in memory
};

}  // namespace ingot::reward
