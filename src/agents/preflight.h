// A preflight check looks, before a run starts, for faults that would fail every episode: a field that a template names
// and tasks lack, a missing program, a work folder that cannot be made. It makes one episode's folder and files,
// renders every template, and runs no command of a recipe.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "agents/options.h"
#include "base/status.h"
#include "proto/tree.pb.h"

namespace ingot::agents {

// The tasks of one file.
struct TaskSet {
  std::string name;  // for people: "data.tasks (train.jsonl)"
  std::span<const v1::Task> tasks;
};

// Warnings, one line each: faults that set-up commands or the agent may fix before they matter.
//
// Fields are looked up on every task, and expected answers read. Files and programs are looked for on the first task, a
// program as the recipe's own environment names it: its PATH, its relative paths from ${workdir}, the interpreter of a
// script. INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED or RESOURCE_EXHAUSTED names the recipe, its key and, of a
// field, the first task without it and the number of such tasks.
absl::StatusOr<std::vector<std::string>> Preflight(const RunnerOptions& options, std::span<const TaskSet> sets);

// The text of a task that the recipe shows its agent, such as a prompt: the longest string that its command,
// environment or files name as a field. Empty = they name no string of this task.
std::string ShownText(const RecipeOptions& recipe, const v1::Task& task);

}  // namespace ingot::agents
