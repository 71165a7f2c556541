// `ingot init`: creates a folder with everything that a first run needs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace ingot::app {

// The verifier of the new run: `exact`, or a Python function in rewards.py.
enum class InitReward { kExact, kPython };

// Returns the names and contents of the files of a run that trains a small model from random weights: its
// configuration, tasks, conversations, an agent, and instructions for people and for coding agents. Deterministic.
std::vector<std::pair<std::string, std::string>> InitFiles(const std::string& name,
                                                           InitReward reward = InitReward::kExact);

// Creates `folder` and writes either all or none of InitFiles into it. Returns ALREADY_EXISTS if it already has a file
// with one of the names, or UNAVAILABLE if the folder or a file cannot be written.
absl::Status WriteInitFiles(const std::string& folder, InitReward reward = InitReward::kExact);

// Returns the next step as a shell command: "FOLDER holds a small run: PROGRAM train FOLDER/run.yaml", with both names
// quoted. `program` is how this program was called.
std::string InitHint(const std::string& folder, const std::string& program);

}  // namespace ingot::app
