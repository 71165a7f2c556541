// Harbor's task folders (schema 1.x, which Terminal-Bench 2 uses) as tasks:
//
//   FOLDER/NAME/task.toml             limits, environment
//   FOLDER/NAME/instruction.md        what the agent is asked
//   FOLDER/NAME/environment/Dockerfile
//   FOLDER/NAME/tests/test.sh         the verifier; it leaves /logs/verifier/reward.txt or reward.json
//   FOLDER/NAME/solution/solve.sh     a solution, for `ingot tasks check`
//
// FOLDER may be one such task itself. The payload of a task has these fields: instruction, task_dir, tests_dir, image (for
// sandbox/image.h: "docker://NAME" or "dockerfile:FOLDER"); and of those that it names (reward/harbor_task.h): agent_timeout_s,
// verifier_timeout_s, cpus, memory_mb, storage_mb, workdir, env, verifier_env, solution_env, healthcheck.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "proto/tree.pb.h"

namespace ingot::dataset {

struct HarborFolder {
  std::vector<v1::Task> tasks;  // by name
  struct Remark {
    std::string name;  // of the task
    std::string text;
  };
  std::vector<Remark> refused;  // each with what this build cannot honour, or the field that is missing
  std::vector<Remark> notes;    // of `tasks`: a field that is not honoured, and what is done instead
};

// True: `path` is a folder.
bool IsHarborFolder(const std::string& path);

// INVALID_ARGUMENT: no folder in it has a task.toml. Tasks that ask for what rooms cannot give are refused, each with its
// reason: several containers (compose), Windows, GPUs and TPUs, a network beyond the gateway, MCP servers, several steps,
// an environment of the tests' own, variables of this machine.
absl::StatusOr<HarborFolder> ReadHarborFolder(const std::string& path);

}  // namespace ingot::dataset
