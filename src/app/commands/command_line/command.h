// Declares the table of commands. Each file in this folder defines one group of commands and their arguments. Add a new
// command to the file for its group.
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
  // Runs a command. Returns the process's exit code: 0 = success, 1 = the run or request failed, 2 = the command line
  // or the configuration is invalid. Prints one line per error to stderr.
  using Run = std::function<int()>;

  std::string name;
  std::string summary;
  // Adds the command's arguments to the parser. Returns a function that runs the command after parsing, if none of
  // `group` was given. Null = one of `group` is required.
  Run (*declare)(CLI::App& parser) = nullptr;
  std::vector<Command> group = {};  // subcommands
  bool computes = false;            // uses OpenMP threads
  bool holds_keys = false;          // hides its memory because it holds keys (process.h)
  bool logs = false;                // runs until stopped; its output is a log, so a lost line is not a failure
};

// Returns all commands in help order.
std::vector<Command> Commands();

// The parts of Commands(), in the same order.
std::vector<Command> RunCommands();          // runs, their roles, and their nodes
std::vector<Command> ModelFolderCommands();  // model folders and checkpoints: text, tensors, evaluation, and serving
std::vector<Command> RecordCommands();       // display or export a run's record
std::vector<Command> DataCommands();         // create, measure, and convert tasks and trajectories
std::vector<Command> SandboxCommands();      // sandboxes and images, without a run
std::vector<Command> BenchCommands();        // benchmarks on this machine, and simulations of scheduling orders
std::vector<Command> SetupCommands();        // help with configurations, machines, and shells

// Returns a validator that requires an option's value to be at least 1.
const CLI::Validator& AtLeastOne();

// Add arguments that several commands share. AddSet adds --set, AddOverrides also accepts overrides without it, AddRunArgs adds the
// configuration file (the returned option) and its overrides, and AddThreads adds the number of threads. The variables
// they fill must outlive the parser.
CLI::Option* AddSet(CLI::App& parser, std::vector<std::string>& overrides, const std::string& example);
void AddOverrides(CLI::App& parser, std::vector<std::string>& overrides, const std::string& example);
CLI::Option* AddRunArgs(CLI::App& parser, RunArgs& args);
void AddThreads(CLI::App& parser, int& threads, const std::string& meaning);
// Adds --allow-host and --allow-origin for an HTTP server (http/site_check.h).
void AddSites(CLI::App& parser, std::vector<std::string>& hosts, std::vector<std::string>& origins);

}  // namespace ingot::app
