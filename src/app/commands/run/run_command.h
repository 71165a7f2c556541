// Returns the commands to use after a run has started or stopped. To continue a stopped run, use the command that
// started it, which is stored in the file `command` in its folder.
#pragma once

#include <string>

#include "app/commands/run/node.h"
#include "app/run/run_args.h"
#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "base/status.h"

namespace ingot::app {

// Returns "ingot VERB run.yaml --set run.name=b", quoted for a shell and without --resume.
std::string CommandOf(const std::string& verb, const RunArgs& args);
// Returns "ingot node run.yaml --group engines --node 1", quoted in the same way.
std::string CommandOfNode(const NodeArgs& args, int node);

// Returns the run's folder.
std::string FolderOf(const RunConfig& config);

// Prints "[run's name] line". The line may contain untrusted text.
void PrintLine(const RunConfig& config, const std::string& line);

absl::Status KeepCommand(const RunDir& dir, const std::string& command);

// Returns the command stored in the run's folder, or `other` if there is none.
std::string CommandIn(const std::string& folder, const std::string& other);

// Returns "the run 'a' ended at step 2 of 2", or an empty string if the run did not reach its end. `config` is the
// configuration stored with the run.
std::string DescribeEnd(const std::string& folder, const RunConfig& config);

// If `status` is CANCELLED and the run has started, adds what was saved and which command continues the run.
absl::Status WithNext(const absl::Status& status, const RunDir& dir, const std::string& command);

// Returns shell commands that show the run and serve its model, one per line below a title. `program` is the name that
// this process was started with.
std::string NextCommands(const std::string& folder, const std::string& program);
// Prints NextCommands.
void PrintNextCommands(const std::string& folder);

}  // namespace ingot::app
