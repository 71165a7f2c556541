// Comparisons of mathematics by math-verify, in Python processes in sandboxes that stay up between comparisons.
//
//   Compare ──▶ an idle worker, or a new one ──a line over a socket──▶ Python in its sandbox ──▶ a child process for each comparison
//
// A worker is a sandbox, a thread in Sandbox::Run and a socket. It loads the package once and forks a child for each
// comparison. A child ends at its time and memory limits without harm to the others. A worker is replaced when it
// breaks and after kMostComparisons, since its children share its sandbox. Thread safe; Compare blocks. The substrates
// outlive the workers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "reward/verifier.h"

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
  ~MathWorkers();

  // `python`: the program. INVALID_ARGUMENT: math-verify cannot read `expected`. INTERNAL: the process has no math-verify, or
  // a comparison crashed. CANCELLED. Otherwise the errors of the substrate. `cancel` may be null.
  absl::StatusOr<MathComparison> Compare(sandbox::Substrate& substrate, const std::string& python,
                                         const std::string& expected, const std::string& answer,
                                         const sandbox::Cancellation* cancel);

  // Ends the idle workers.
  void EndIdle();

  // Workers that were started so far.
  int64_t started() const;

  // The command that a process is, for Verifier::Preflight.
  sandbox::Command CommandOf(const std::string& python) const;

 private:
  class Worker;

  absl::StatusOr<std::unique_ptr<Worker>> AcquireWorker(sandbox::Substrate& substrate, const std::string& python,
                                                        const sandbox::Cancellation* cancel);
  void Return(std::unique_ptr<Worker> worker);  // null = it broke

  const MathOptions options_;
  mutable base::Mutex mu_;
  base::CondVar changed_;
  std::vector<std::unique_ptr<Worker>> idle_ ABSL_GUARDED_BY(mu_);  // the last one was used last
  int32_t busy_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t started_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace ingot::reward
