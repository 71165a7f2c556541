// The errors of a command line that does not parse, in one line each.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace ingot::app {

// Names the first word that no command or option is, with the nearest known one, and the help to ask for.
std::string DescribeError(const CLI::App& app, const CLI::ParseError& error);

}  // namespace ingot::app
