// Harbor's task folders (schema 1.x, which Terminal-Bench 2 uses) as tasks:
//
//   FOLDER/NAME/task.toml             limits, environment
//   FOLDER/NAME/instruction.md        what the agent is asked
//   FOLDER/NAME/environment/Dockerfile
//   FOLDER/NAME/tests/test.sh         the verifier; it leaves /logs/verifier/reward.txt or reward.json
//   FOLDER/NAME/solution/solve.sh     a solution, for `ingot tasks check`
//
// FOLDER may be one such task itself. The payload of a task has these fields: instruction, task_dir, tests_dir, image
// (for sandbox/image/image.h: "docker://NAME" or "dockerfile:FOLDER"); and the fields of reward/harbor_task.h that it
// names: agent_timeout_s, verifier_timeout_s, cpus, memory_mb, storage_mb, workdir, env, verifier_env, solution_env,
// healthcheck.
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
  std::vector<Remark> rejected;  // what this build does not support, or the wrong or missing field
  // Of `tasks`: an unsupported field, and the substitute. Of rejected tasks too: a key that Harbor's schema lacks, with
  // the nearest key that it has.
  std::vector<Remark> notes;
};

// True: `path` is a folder.
bool IsHarborFolder(const std::string& path);

// Every task is read separately: a wrong task is rejected, and the others stay. Reasons to reject a task:
//
//   faults of the task    a file is missing, empty or unreadable; a value of task.toml has the wrong type or is out of
//                         bounds (dataset/harbor_toml.h); the schema's version is not 1.x
//   limits of sandboxes   several containers (compose), Windows, GPUs and TPUs, a network beyond the gateway, MCP
//                         servers, several steps, a separate environment for the tests, variables of this machine
//
// INVALID_ARGUMENT: no folder in it has a task.toml or an instruction.md. NOT_FOUND, UNAVAILABLE: `path` cannot be
// read.
absl::StatusOr<HarborFolder> ReadHarborFolder(const std::string& path);

}  // namespace ingot::dataset
