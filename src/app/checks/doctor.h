// `ingot doctor`: what this machine can do, and how to fix what it cannot.
#pragma once

#include <string>
#include <vector>

#include "app/run/run_config.h"

namespace ingot::app {

enum class Health { kGood, kLimited, kBroken };

struct Finding {
  Health health = Health::kGood;
  std::string subject;  // one word or two
  std::string text;
  std::string remedy = {};  // how to fix a finding that is not good; empty = there is no fix
};

// Checks instruction set, memory, open files, the disk of the runs' folder, the agents' sandbox, the ports of `config`,
// the GPU and the programs that parts of Ingot use. Leaves no process and no file.
std::vector<Finding> Examine(const RunConfig& config);

// The ports that the configuration names: free, in use, or named twice.
Finding ExaminePorts(const RunConfig& config);

// One line per finding, and one for its remedy.
std::string FormatFindings(const std::vector<Finding>& findings);

// The verdict on an instruction set, by its name in kernels::InstructionSet. Pure, like the next functions.
Finding JudgeInstructionSet(const std::string& name);
Finding JudgeMemory(int64_t available_bytes);
Finding JudgeOpenFiles(uint64_t soft, uint64_t hard);
Finding JudgeFsync(double milliseconds, const std::string& folder);

}  // namespace ingot::app
