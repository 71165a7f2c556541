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

// If a term needs a server that is null, its result for every episode is FAILED_PRECONDITION. Other terms are not
// affected.
struct TermParts {
  std::shared_ptr<const JudgeModel> judge = nullptr;
  std::shared_ptr<const ExternalScorer> external = nullptr;
  std::shared_ptr<const TeacherModel> teacher = nullptr;
  std::shared_ptr<sandbox::Substrate> substrate = nullptr;  // for the term python
  std::shared_ptr<Verdicts> verdicts = nullptr;  // for judges; null = each term keeps its own verdicts in memory
};

}  // namespace ingot::reward
