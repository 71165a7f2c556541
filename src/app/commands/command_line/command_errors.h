// Writes one-line errors for command lines that fail to parse.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace ingot::app {

// Returns an error that names the first unknown word, suggests the closest command or option, and gives the --help
// command to run.
std::string DescribeError(const CLI::App& app, const CLI::ParseError& error);

}  // namespace ingot::app
