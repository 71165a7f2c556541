// Compares mathematical expressions with math-verify, in Python processes that run in sandboxes and are reused between
// comparisons.
//
//   Compare ──▶ a LineWorkers process: Python in its sandbox ──▶ a child process for each comparison
//
// A process loads the package once and forks a child for each comparison. A child that exceeds its time or memory limit
// ends without affecting the others. A process is replaced after kMaxComparisons comparisons, because its children
// share its sandbox. Thread safe. Compare blocks. The substrates must outlive the workers.
#pragma once

#include <string>

#include "base/status.h"
#include "reward/verifier.h"
#include "reward/workers/line_workers.h"

namespace ingot::reward {

// Advice to append to an error if verifier.math.python cannot run.
inline constexpr char kMathAdvice[] =
    "; scripts/setup.sh installs math-verify into the repository's .venv; elsewhere, set a Python that has it (pip "
    "install math-verify==0.9.0), and add its folders to sandbox.visible if sandboxes cannot see them";

struct MathComparison {
  bool equal = false;
  bool killed = false;             // exceeded its time or memory limit
  bool answer_unreadable = false;  // math-verify found no mathematical expression in the answer
};

class MathWorkers {
 public:
  static constexpr int kMaxComparisons = 256;

  explicit MathWorkers(MathOptions options);

  // `python` is the path of the Python program. `cancel` may be null. Returns INVALID_ARGUMENT if math-verify cannot
  // parse `expected`, INTERNAL if math-verify is not installed or a comparison crashed, CANCELLED if `cancel` was
  // canceled, and otherwise the substrate's errors.
  absl::StatusOr<MathComparison> Compare(sandbox::Substrate& substrate, const std::string& python,
                                         const std::string& expected, const std::string& answer,
                                         const sandbox::Cancellation* cancel);

  // Ends the idle processes.
  void EndIdle() { workers_.EndIdle(); }

  // Returns the number of processes started so far.
  int64_t started() const { return workers_.started(); }

  // Returns the command of a worker's process, for Verifier::Preflight.
  sandbox::Command CommandOf(const std::string& python) const;

 private:
  const MathOptions options_;
  LineWorkers workers_;
};

}  // namespace ingot::reward
