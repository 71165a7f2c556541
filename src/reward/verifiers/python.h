// The user's Python function decides: verifier.python.function (reward/python/python_function.h).
//
//   def score(task, answer, messages, files, episode_id): ...     the arguments that it wants, by name
//
//   task        dict   the task's line
//   answer      str    as for every verifier
//   messages    list   the assistant's messages in the order of the calls, in OpenAI's form, with their tool calls
//   files       dict   path to bytes: the files of the work folder; only with verifier.python.files
//   episode_id  str
//
// It returns a number, or a dictionary: with "reward" as of `agent_reported`, any other numbers being signals; without
// it, of terms, whose sum is the reward and which are signals too.
//
// An exception, a result that is not one and a call past timeout_s are the verifier's faults: errors, never a 0.
#pragma once

#include <memory>

#include "base/status.h"
#include "reward/verifier.h"

namespace ingot::reward {

absl::StatusOr<std::unique_ptr<const Verifier>> MakePython(const VerifierOptions& options);

}  // namespace ingot::reward
