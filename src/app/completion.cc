#include "app/completion.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace ingot::app {
namespace {

constexpr char kBash[] = R"(_ingot() {
  local IFS=$'\n'
  COMPREPLY=($(ingot completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}
COMP_WORDBREAKS=${COMP_WORDBREAKS//=/}
complete -o default -F _ingot ingot
)";

constexpr char kZsh[] = R"(#compdef ingot
_ingot() {
  local -a found
  found=("${(@f)$(ingot completion words "${(@)words[2,$CURRENT]}" 2>/dev/null)}")
  if [[ -n ${found[1]} ]]; then
    compadd -S '' -- $found
  else
    _files
  fi
}
compdef _ingot ingot
)";

constexpr char kFish[] = R"(function __ingot_complete
  set -l typed (commandline -opc) (commandline -ct)
  ingot completion words $typed[2..-1] 2>/dev/null
end
complete -c ingot -a '(__ingot_complete)'
)";

bool TakesARun(CLI::App& command) {
  const std::vector<CLI::Option*> options = command.get_options();
  return std::any_of(options.begin(), options.end(),
                     [](const CLI::Option* option) { return option->check_name("--set"); });
}

}  // namespace

std::vector<std::string> Completions(CLI::App& app, const std::vector<std::string>& words,
                                     const std::vector<std::string>& keys) {
  if (words.empty()) return {};
  const std::string& typed = words.back();
  CLI::App* command = &app;
  size_t positions = 0;  // words that are no options, behind the command
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const auto commands = command->get_subcommands([&](const CLI::App* one) { return one->get_name() == words[i]; });
    CLI::App* const below = positions == 0 && !commands.empty() ? commands.front() : nullptr;
    if (below != nullptr) {
      command = below;
    } else if (!words[i].starts_with("-")) {
      ++positions;
    }
  }
  std::vector<std::string> found;
  const auto offer = [&](const std::string& word) {
    if (word.starts_with(typed)) found.push_back(word);
  };
  const bool after_set = words.size() > 1 && words[words.size() - 2] == "--set";
  if (typed.starts_with("-")) {
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) offer("--" + name);
    }
  } else if (after_set || (positions > 0 && TakesARun(*command))) {
    for (const std::string& key : keys) offer(key + "=");
  } else if (positions == 0) {
    for (const CLI::App* below : command->get_subcommands([](const CLI::App*) { return true; })) {
      offer(below->get_name());
    }
  }
  return found;
}

absl::StatusOr<std::string> CompletionScript(const std::string& shell) {
  if (shell == "bash") return std::string(kBash);
  if (shell == "zsh") return std::string(kZsh);
  if (shell == "fish") return std::string(kFish);
  return absl::InvalidArgumentError(absl::StrCat("no completion for '", shell, "': bash, zsh or fish"));
}

}  // namespace ingot::app
