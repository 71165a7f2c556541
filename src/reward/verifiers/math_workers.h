// Comparisons of mathematics by math-verify, in Python processes in sandboxes that stay up between comparisons.
//
//   Compare ──▶ a process of LineWorkers: Python in its sandbox ──▶ a child process for each comparison
//
// A process loads the package once and forks a child for each comparison. A child ends at its time and memory limits
// without harm to the others. A process is replaced after kMostComparisons too, because its children share its sandbox.
// Thread safe; Compare blocks. The substrates outlive the workers.
#pragma once

#include <string>

#include "base/status.h"
#include "reward/verifier.h"
#include "reward/workers/line_workers.h"

namespace ingot::reward {

// What to do if verifier.math.python does not run.
inline constexpr char kMathAdvice[] =
    "; scripts/setup.sh installs math-verify into .venv of the repository; elsewhere name a Python that has it (pip "
    "install math-verify==0.9.0), and its folders in sandbox.visible if sandboxes do not see it";

struct MathComparison {
  bool equal = false;
  bool killed = false;             // it ran past its time or memory
  bool answer_unreadable = false;  // math-verify found no mathematics in the answer
};

class MathWorkers {
 public:
  static constexpr int kMostComparisons = 256;

  explicit MathWorkers(MathOptions options);

  // `python`: the program. INVALID_ARGUMENT: math-verify cannot read `expected`. INTERNAL: the process has no math-verify, or
  // a comparison crashed. CANCELLED. Otherwise the errors of the substrate. `cancel` may be null.
  absl::StatusOr<MathComparison> Compare(sandbox::Substrate& substrate, const std::string& python,
                                         const std::string& expected, const std::string& answer,
                                         const sandbox::Cancellation* cancel);

  // Ends the idle processes.
  void EndIdle() { workers_.EndIdle(); }

  // Processes that were started so far.
  int64_t started() const { return workers_.started(); }

  // The command that a process is, for Verifier::Preflight.
  sandbox::Command CommandOf(const std::string& python) const;

 private:
  const MathOptions options_;
  LineWorkers workers_;
};

}  // namespace ingot::reward
