// A RecipeMix decides which recipe runs the next episode. The domain of its task is known only when the episode is
// open, so a Choice names a recipe for each domain; the runner takes one of them.
//
//   Choose ──▶ Choice ──admitted──▶ Take (the task's domain) ──▶ Ended
//                 └────rejected────▶ Drop
//
// Recipes that name a domain share its tasks by their weights; recipes without domains share all others. A choice holds
// a place of every recipe in it, so that no recipe runs more than its max_concurrent episodes. Pure and not thread
// safe; Runner calls it under its lock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agents/options.h"

namespace ingot::agents {

class RecipeMix {
 public:
  static constexpr int kNone = -1;  // in place of a recipe's index

  struct Choice {
    std::map<std::string, int> by_domain;  // for each domain that a recipe names
    int other = kNone;                     // for tasks of other domains; kNone = every recipe names domains
  };

  explicit RecipeMix(const std::vector<RecipeOptions>& recipes);

  // False: in a domain every recipe has as many episodes as it may.
  bool HasRoom() const { return Pick().has_value(); }
  // For each domain, the recipe furthest below its share; nullopt if HasRoom is false.
  std::optional<Choice> Choose();
  // The recipe of `choice` for a task of `domain` (its field: empty = `default`), whose episode begins; the places of
  // the others are free again.
  int TakeRecipe(const Choice& choice, const std::string& domain);
  // No episode begins. The choice does not count against recipes that were passed over for it.
  void Drop(const Choice& choice);
  void Ended(int recipe) { --running_[static_cast<size_t>(recipe)]; }

  // The recipe for a task of `domain`; kNone = there is none.
  static int RecipeFor(const Choice& choice, const std::string& domain);

 private:
  // The recipes that share a domain's tasks.
  struct Share {
    std::vector<int> recipes;
    std::map<int, int64_t> started;
  };
  int Next(const Share& share) const;
  std::optional<Choice> Pick() const;
  void Hold(const Choice& choice, int64_t places);

  const std::vector<RecipeOptions>& recipes_;
  std::map<std::string, Share> by_domain_;
  Share other_;
  std::vector<int64_t> running_;  // episodes and held places, by recipe
};

// True: the recipe may run a task of `domain`, given the other `recipes`.
bool TakesDomain(const std::vector<RecipeOptions>& recipes, const RecipeOptions& recipe, const std::string& domain);

}  // namespace ingot::agents
