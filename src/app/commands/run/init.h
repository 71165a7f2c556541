// `ingot init`: a new folder with everything that a first run needs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace ingot::app {

// What decides about an answer: the verifier `exact`, or a function in a file rewards.py.
enum class InitReward { kExact, kPython };

// The files of a run that trains a small model from random weights, by name and content: its configuration, tasks,
// conversations, an agent, and instructions for people and for coding agents. The same every time.
std::vector<std::pair<std::string, std::string>> InitFiles(const std::string& name,
                                                           InitReward reward = InitReward::kExact);

// Makes `folder` and writes InitFiles into it, all or none. ALREADY_EXISTS: a file of such a name is there.
// UNAVAILABLE: the folder or a file cannot be written.
absl::Status WriteInitFiles(const std::string& folder, InitReward reward = InitReward::kExact);

// The next step, for a shell: "FOLDER holds a small run: cd FOLDER && PROGRAM train run.yaml", with both quoted.
// `program`: how this program was called. A path is shown as an absolute one, which holds in the folder too.
std::string InitHint(const std::string& folder, const std::string& program);

}  // namespace ingot::app
