// `ingot doctor`: reports what this machine supports and how to fix the rest.
#pragma once

#include <string>
#include <vector>

#include "app/models/device.h"
#include "app/run/run_config.h"

namespace ingot::app {

enum class Health { kGood, kLimited, kBroken };

struct Finding {
  Health health = Health::kGood;
  std::string subject;  // one or two words
  std::string text;
  std::string remedy = {};  // how to fix a finding that is not good; empty = no known fix
};

// Checks the instruction set, memory, the open file limit, the disk that holds the runs, the agents' sandbox, the ports
// in `config`, the GPU, and the external programs that Ingot uses. Leaves no processes or files behind.
std::vector<Finding> Examine(const RunConfig& config);

// Checks whether each configured port is free, in use, or configured twice.
Finding ExaminePorts(const RunConfig& config);

// Returns one line per finding and one line per remedy.
std::string FormatFindings(const std::vector<Finding>& findings);

// Judges an instruction set by its name in kernels::InstructionSet. Pure, like the functions below.
Finding JudgeInstructionSet(const std::string& name);
Finding JudgeMemory(int64_t available_bytes);
// Judges what OpenDevice("auto") chose. `driver` is NVML's report, which does not need libingot_cuda.so.
Finding JudgeDevice(const DeviceChoice& device, const DriverFacts& driver);
Finding JudgeOpenFiles(uint64_t soft, uint64_t hard);
Finding JudgeFsync(double milliseconds, const std::string& folder);

}  // namespace ingot::app
