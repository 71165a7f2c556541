#include "app/commands/command_line/command_errors.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <vector>

#include "base/config.h"
#include "base/printable.h"

namespace ingot::app {
namespace {

// Returns the name that `word` may stand for; empty = none is close. REQUIRES: names are not empty.
std::string Nearest(const std::string& asked, const std::vector<std::string>& names) {
  const std::string word = asked.substr(0, base::kMaxShown);  // because the cost grows with its size
  const auto nearest = std::min_element(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return base::EditDistance(word, a) < base::EditDistance(word, b);
  });
  return base::EditDistance(word, *nearest) <= std::max<size_t>(2, word.size() / 2) ? *nearest : "";
}

// Returns "unknown KIND 'WORD'; the nearest is 'NAME'". Omits the name if `nearest` is empty.
std::string Unknown(const std::string& kind, const std::string& word, const std::string& nearest) {
  const std::string unknown = "unknown " + kind + " '" + base::Shown(word) + "'";
  return nearest.empty() ? unknown : unknown + "; the nearest is '" + nearest + "'";
}

// Returns the command that the words lead to, which is the parser for the last known word.
const CLI::App& Named(const CLI::App& app) {
  const CLI::App* parser = &app;
  while (!parser->get_subcommands().empty()) parser = parser->get_subcommands().back();
  return *parser;
}

// Returns an error that names the first word unknown to `parser` and the closest known word; empty = all words are
// known.
std::string DescribeUnknown(const CLI::App& parser) {
  std::vector<std::string> commands, options;
  for (const CLI::App* command : parser.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(command->get_name());
  }
  for (const CLI::Option* option : parser.get_options()) {
    for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  }
  for (const std::string& word : parser.remaining()) {
    if (word.starts_with("-") && word != "--") {
      // A single letter stands for the option that begins with it.
      const std::string name = word.substr(0, word.find('='));
      const auto alike = std::find_if(options.begin(), options.end(), [&](const std::string& option) {
        return name.size() == 2 && option[2] == name[1];
      });
      const std::string nearest = alike == options.end() ? Nearest(name, options) : *alike;
      const bool takes_keys = std::find(options.begin(), options.end(), "--set") != options.end();
      const std::string keys = takes_keys ? "; to set a configuration key, use --set KEY=VALUE" : "";
      return Unknown("option", name, nearest) + (nearest.empty() ? keys : "");
    }
    if (!commands.empty()) return Unknown("command", word, Nearest(word, commands));
    return "'" + base::Shown(word) + "' is an unexpected argument";
  }
  return "";
}

}  // namespace

std::string DescribeError(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& parser = Named(app);
  std::string path;
  for (const CLI::App* part = &parser; part->get_parent() != nullptr; part = part->get_parent()) {
    path = " " + part->get_name() + path;
  }
  std::string fault;
  for (const CLI::App* part = &parser; part != nullptr && fault.empty(); part = part->get_parent()) {
    fault = DescribeUnknown(*part);
  }
  if (fault.empty()) fault = base::CutMessage(error.what());
  std::replace(fault.begin(), fault.end(), '\n', ' ');
  return "ingot" + path + ": " + fault + "; see `ingot" + path + " --help`";
}

}  // namespace ingot::app
