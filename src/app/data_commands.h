// The arguments of the commands that make, measure and convert data. Each function adds a command's arguments to the parser,
// and its result runs the command once they are parsed.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "app/commands.h"

namespace ingot::app {

// The configuration and its overrides.
void AddRunArgs(CLI::App& parser, RunArgs& args);

std::function<int()> DeclareRegrade(CLI::App& parser);
std::function<int()> DeclareCollect(CLI::App& parser);
std::function<int()> DeclareTasksRate(CLI::App& parser);
std::function<int()> DeclareTasksFilter(CLI::App& parser);
std::function<int()> DeclareTasksCases(CLI::App& parser);
std::function<int()> DeclareExport(CLI::App& parser);
std::function<int()> DeclareImport(CLI::App& parser);

}  // namespace ingot::app
