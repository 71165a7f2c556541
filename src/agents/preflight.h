// Checks for problems that would make every episode fail, before a run starts: a template field that tasks lack, a
// missing program, or a working directory that cannot be created. Creates one episode's folder and files and renders
// every template, but does not run any of the recipes' commands.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "agents/options.h"
#include "base/status.h"
#include "proto/tree.pb.h"

namespace ingot::agents {

// The tasks in one file.
struct TaskSet {
  std::string name;  // human-readable: "data.tasks (train.jsonl)"
  std::span<const v1::Task> tasks;
};

// Returns warnings, one per line, about problems that setup commands or the agent may still fix.
//
// Checks the fields and expected answers of every task, but looks up files and programs only for the first task.
// Resolves programs in the recipe's own environment: its PATH, relative paths from ${workdir}, and script interpreters.
// Returns INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, or RESOURCE_EXHAUSTED if a check fails. The error names the
// recipe and the key. For a missing field, it also includes the first task without the field and the number of such
// tasks.
absl::StatusOr<std::vector<std::string>> Preflight(const RunnerOptions& options, std::span<const TaskSet> sets);

// Returns the task text that the recipe shows to its agent, such as a prompt. This is the longest string among the task
// fields used by the recipe's command, environment, or files. Returns "" if they use none of the task's strings.
std::string ShownText(const RecipeOptions& recipe, const v1::Task& task);

}  // namespace ingot::agents
