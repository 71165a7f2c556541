// One-line errors for a command line that does not parse.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace ingot::app {

// Names the first unknown word, suggests the closest command or option, and says which --help to run.
std::string DescribeError(const CLI::App& app, const CLI::ParseError& error);

}  // namespace ingot::app
