// Reads Harbor task folders (schema 1.x, which Terminal-Bench 2 uses) as tasks:
//
//   FOLDER/NAME/task.toml             limits, environment
//   FOLDER/NAME/instruction.md        the request to the agent
//   FOLDER/NAME/environment/Dockerfile
//   FOLDER/NAME/tests/test.sh         the verifier, which writes /logs/verifier/reward.txt or reward.json
//   FOLDER/NAME/solution/solve.sh     a solution, for `ingot tasks check`
//
// FOLDER may itself be a task. A task's payload has these fields: instruction, task_dir, tests_dir, image (for
// sandbox/image/image.h: "docker://NAME" or "dockerfile:FOLDER"), and those fields in reward/harbor_task.h that it
// specifies: agent_timeout_s, verifier_timeout_s, cpus, memory_mb, storage_mb, workdir, env, verifier_env,
// solution_env, healthcheck.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "proto/tree.pb.h"

namespace ingot::dataset {

struct HarborFolder {
  std::vector<v1::Task> tasks;  // sorted by name
  struct Remark {
    std::string name;  // the task's name
    std::string text;
  };
  std::vector<Remark> rejected;  // why: an unsupported feature, or a wrong or missing field
  // For `tasks`: an unsupported field and what is used instead. For all tasks, including rejected ones: a key that is
  // not in Harbor's schema, with the most similar key that is in it.
  std::vector<Remark> notes;
};

// Returns true if `path` is a directory.
bool IsHarborFolder(const std::string& path);

// Reads each task separately: an invalid task is rejected without affecting the others. Reasons to reject a task:
//
//   faults of the task    a file is missing, empty, or unreadable; a value in task.toml has the wrong type or is out of
//                         bounds (dataset/harbor_toml.h); the schema's version is not 1.x
//   limits of sandboxes   several containers (compose), Windows, GPUs and TPUs, network access beyond the gateway, MCP
//                         servers, several steps, a separate environment for the tests, this machine's variables
//
// Returns INVALID_ARGUMENT if no folder in `path` has a task.toml or instruction.md, and NOT_FOUND or UNAVAILABLE if
// `path` cannot be read.
absl::StatusOr<HarborFolder> ReadHarborFolder(const std::string& path);

}  // namespace ingot::dataset
