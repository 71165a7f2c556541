// One-line errors for a command line that does not parse.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace ingot::app {

// Names the first unknown word with the nearest command or option, and the --help to run.
std::string DescribeError(const CLI::App& app, const CLI::ParseError& error);

}  // namespace ingot::app
