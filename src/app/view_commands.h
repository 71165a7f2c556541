// The arguments of the commands that show a run to people, and of those that help with the command line. Each function adds them to the parser and returns what runs the
// command once they are parsed; that returns the exit code.
#pragma once

#include <functional>

namespace CLI {
class App;
}  // namespace CLI

namespace ingot::app {

std::function<int()> DeclareView(CLI::App& parser);
std::function<int()> DeclareReport(CLI::App& parser);
std::function<int()> DeclareCompare(CLI::App& parser);
std::function<int()> DeclareConfigSchema(CLI::App& parser);
std::function<int()> DeclareInit(CLI::App& parser);
std::function<int()> DeclareDoctor(CLI::App& parser);
std::function<int()> DeclareCompletion(CLI::App& parser);  // of the shell that the command is named after
std::function<int()> DeclareCompletionWords(CLI::App& parser);

}  // namespace ingot::app
