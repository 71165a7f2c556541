// The verifier of a Harbor task: a folder with test.sh and whatever that needs. It runs in the episode's room, after the
// agent, in the agent's work folder. The reward is what it leaves in reward.json, and otherwise in reward.txt:
//
//   /logs/verifier/reward.txt    a number
//   /logs/verifier/reward.json   a number, or an object of numbers; "reward" is the reward, the others are signals. Of an
//                                object with one number and no "reward", that number is the reward.
//
// Rooms have neither /tests nor /logs. The files are written into a new folder in work/ after the agent is gone, and these
// two paths are replaced in every text file of the folder. The exit code does not matter. No reward file, an empty one or
// no number is an error of the verifier, and running past `timeout_s` is one unless `timeout_is_zero`. The answer is
// not read.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "reward/verifier.h"

namespace ingot::reward {

// A shell's text that runs the script "$1" by bash, or by sh where an image has no bash.
inline constexpr char kRunHarborScript[] = R"(if command -v bash >/dev/null; then exec bash "$1"; fi; exec sh "$1")";

// `text` with `folder`/tests and `folder`/logs in place of the absolute paths /tests and /logs.
std::string WithHarborPaths(std::string_view text, const std::string& folder);

absl::StatusOr<std::unique_ptr<const Verifier>> MakeHarbor(const VerifierOptions& options);

}  // namespace ingot::reward
