#include "app/commands/command_line/completion.h"

#include <CLI/CLI.hpp>
#include <span>
#include <utility>

#include "absl/strings/str_split.h"

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

// The command that the complete words lead to, and the position after them.
struct Place {
  CLI::App* command = nullptr;
  size_t positions = 0;                // number of words after the command that are neither options nor their values
  const CLI::Option* value = nullptr;  // option whose value is next; null = none
};

Place Behind(CLI::App& app, std::span<const std::string> words) {
  Place place{&app};
  for (const std::string& word : words) {
    if (std::exchange(place.value, nullptr) != nullptr) continue;
    if (word.starts_with("-")) {
      const CLI::Option* const option = place.command->get_option_no_throw(word);
      if (option != nullptr && option->get_items_expected_max() > 0) place.value = option;  // not a flag
      continue;
    }
    const auto below = place.command->get_subcommands([&](const CLI::App* one) { return one->get_name() == word; });
    if (place.positions == 0 && !below.empty()) {
      place.command = below.front();
    } else {
      ++place.positions;
    }
  }
  return place;
}

// Returns whether the next word may override a key: the command accepts overrides, and its preceding arguments are
// complete.
bool TakesAKey(const Place& place) {
  size_t before = 0;
  for (const CLI::Option* option : place.command->get_options()) {
    if (option->check_name("overrides")) return place.positions >= before;
    before += option->get_positional() ? 1 : 0;
  }
  return false;
}

// Returns an option's fixed choices, which its help lists as "{sft,dpo,atif}".
std::vector<std::string> ChoicesOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t first = type.find('{'), last = type.find('}');
  if (first == std::string::npos || last == std::string::npos) return {};
  return absl::StrSplit(type.substr(first + 1, last - first - 1), ',');
}

}  // namespace

std::vector<std::string> Completions(CLI::App& app, const std::vector<std::string>& words,
                                     const std::vector<std::string>& keys) {
  if (words.empty()) return {};
  const std::string& typed = words.back();
  const Place place = Behind(app, {words.data(), words.size() - 1});
  std::vector<std::string> found;
  const auto offer = [&](const std::string& word) {
    if (word.starts_with(typed)) found.push_back(word);
  };
  const bool sets = place.value != nullptr && place.value->check_name("--set");
  if (place.value != nullptr && !sets) {
    for (const std::string& choice : ChoicesOf(*place.value)) offer(choice);
  } else if (typed.starts_with("-")) {
    for (const CLI::Option* option : place.command->get_options()) {
      for (const std::string& name : option->get_lnames()) offer("--" + name);
    }
  } else if (sets || TakesAKey(place)) {
    for (const std::string& key : keys) offer(key + "=");
  } else if (place.positions == 0) {
    for (const CLI::App* below : place.command->get_subcommands([](const CLI::App*) { return true; })) {
      offer(below->get_name());
    }
  }
  return found;
}

absl::StatusOr<std::string> CompletionScript(const std::string& shell) {
  if (shell == "bash") return std::string(kBash);
  if (shell == "zsh") return std::string(kZsh);
  if (shell == "fish") return std::string(kFish);
  return absl::InvalidArgumentError(absl::StrCat("no completion for '", shell, "': use bash, zsh, or fish"));
}

}  // namespace ingot::app
