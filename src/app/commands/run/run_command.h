// The commands that follow a run. One that no process holds is continued with the command that started it, which its folder
// keeps in the file `command`.
#pragma once

#include <string>

#include "app/commands/run/node.h"
#include "app/run/run_args.h"
#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "base/status.h"

namespace ingot::app {

// "ingot VERB run.yaml --set run.name=b", without --resume, for a shell.
std::string CommandOf(const std::string& verb, const RunArgs& args);
// "ingot node run.yaml --group engines --node 1", likewise.
std::string CommandOfNode(const NodeArgs& args, int node);

absl::Status KeepCommand(const RunDir& dir, const std::string& command);

// The command that the run keeps; else `other`.
std::string CommandIn(const std::string& folder, const std::string& other);

// "the run 'a' ended at step 2 of 2"; empty = it did not reach its end. `config`: as the run keeps it.
std::string DescribeEnd(const std::string& folder, const RunConfig& config);

// A CANCELLED `status` of a run that has begun also says what is saved, and which command continues it.
absl::Status WithNext(const absl::Status& status, const RunDir& dir, const std::string& command);

// Commands for a shell that show the run and serve its model, one per line below a title. `program`: as this process was
// called.
std::string NextCommands(const std::string& folder, const std::string& program);
// Prints them.
void PrintNextCommands(const std::string& folder);

}  // namespace ingot::app
