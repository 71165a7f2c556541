// The user's Python function decides: verifier.python.function (reward/python/python_function.h).
//
//   def score(task, answer, messages, files, episode_id): ...     lists the arguments that it needs
//
//   task        dict   the task's line
//   answer      str    as for every verifier
//   messages    list   the assistant's messages in call order and OpenAI format, with their tool calls
//   files       dict   path -> bytes, the files in the working directory; only with verifier.python.files
//   episode_id  str
//
// It returns a number or a dictionary. With "reward", the dictionary is as for `agent_reported`, and other numbers are
// signals. Without "reward", the numbers are terms: their sum is the reward, and each is also a signal.
//
// An exception, an invalid result, or a call that exceeds timeout_s is the verifier's fault: an error, never a 0.
#pragma once

#include <memory>

#include "base/status.h"
#include "reward/verifier.h"

namespace ingot::reward {

absl::StatusOr<std::unique_ptr<const Verifier>> MakePython(const VerifierOptions& options);

}  // namespace ingot::reward
