// The commands of the command line, as a table. Each file of this folder is one part: the commands of one kind, with
// their arguments. To add a command, add it to the part of its kind.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Validator;
class Option;
}  // namespace CLI

namespace ingot::app {

struct RunArgs;

struct Command {
  // Runs a command with its arguments. Returns the process's exit code: 0 = done, 1 = the run or request failed, 2 =
  // the command line or the configuration is wrong. Errors go to stderr, one line each.
  using Run = std::function<int()>;

  std::string name;
  std::string summary;
  // Adds the command's arguments to the parser; the result runs the command once they are parsed. Null = a group.
  Run (*declare)(CLI::App& parser) = nullptr;
  std::vector<Command> group = {};  // the commands of a group
  bool computes = false;            // with threads of OpenMP
  bool holds_keys = false;          // hides its memory (process.h)
  bool logs = false;                // runs until it is stopped: its output is a log, and a lost line is not a failure
};

// Every command, in the order of the help.
std::vector<Command> Commands();

// Its parts, in this order.
std::vector<Command> RunCommands();          // a run, its roles and its nodes
std::vector<Command> ModelFolderCommands();  // a model folder or checkpoint: its texts, tensors, evaluation and serving
std::vector<Command> RecordCommands();       // the record of a run: shown or exported
std::vector<Command> DataCommands();         // tasks and trajectories: made, measured, converted
std::vector<Command> SandboxCommands();      // sandboxes and their images, without a run
std::vector<Command> BenchCommands();        // figures of this machine and of orders, measured or simulated
std::vector<Command> SetupCommands();        // help with configurations, machines and shells

// A check of an option: the number is at least 1.
const CLI::Validator& AtLeastOne();

// Arguments of several commands: the configuration (the returned option) with its overrides, overrides alone, and the
// number of threads. What they fill outlives the parser.
void AddOverrides(CLI::App& parser, std::vector<std::string>& overrides, const std::string& example);
CLI::Option* AddRunArgs(CLI::App& parser, RunArgs& args);
void AddThreads(CLI::App& parser, int& threads, const std::string& meaning);
// --allow-host and --allow-origin of an HTTP server (http/site_check.h).
void AddSites(CLI::App& parser, std::vector<std::string>& hosts, std::vector<std::string>& origins);

}  // namespace ingot::app
