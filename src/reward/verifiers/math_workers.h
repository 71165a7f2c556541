// Comparisons of mathematics by math-verify, in Python processes of a room.
//
//   Compare ──▶ pending ──▶ one thread takes all pending ones ──▶ Room::Run(python) ──▶ a child process for each comparison
//
// A room runs one command at a time and no daemon, so a process answers what is pending at its start, at most 32
// comparisons. It loads the package once and forks a child for each, which ends at its limits of time and memory without
// harm to the others. Thread safe; Compare blocks.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "reward/verifier.h"

namespace ingot::reward {

struct MathComparison {
  bool equal = false;
  bool killed = false;             // it ran past its time or memory
  bool answer_unreadable = false;  // math-verify read no mathematics in the answer
};

class MathWorkers {
 public:
  explicit MathWorkers(MathOptions options) : options_(std::move(options)) {}

  // `python`: the program. INVALID_ARGUMENT: math-verify cannot read `expected`. INTERNAL: the process has no math-verify, or
  // a comparison crashed. Otherwise the errors of the substrate. `cancel` may be null.
  absl::StatusOr<MathComparison> Compare(sandbox::Substrate& substrate, const std::string& python,
                                         const std::string& expected, const std::string& answer,
                                         const sandbox::Cancellation* cancel);

  // The command that a process is, for Verifier::Rehearse.
  sandbox::Command CommandOf(const std::string& python) const;

 private:
  struct Question {
    std::string expected, answer;
    absl::StatusOr<MathComparison> result = absl::UnknownError("not compared");
    bool done = false;
  };
  // Answers every question of the batch.
  void Answer(sandbox::Substrate& substrate, const std::string& python, const std::vector<Question*>& batch,
              const sandbox::Cancellation* cancel);
  absl::Status Ask(sandbox::Substrate& substrate, const std::string& python, const std::vector<Question*>& batch,
                   const sandbox::Cancellation* cancel);

  const MathOptions options_;
  base::Mutex mu_;
  base::CondVar changed_;
  std::deque<Question*> pending_ ABSL_GUARDED_BY(mu_);  // not owned: each is on the stack of its Compare
  int32_t running_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace ingot::reward
