// Chooses the recipe for the next episode. The task's domain is known only once the episode is open, so a Choice has a
// recipe for each domain. The runner uses one of them.
//
//   Choose ──▶ Choice ──admitted──▶ TakeRecipe (the task's domain) ──▶ Ended
//                 └────rejected────▶ Drop
//
// Recipes that list the same domain share its tasks in proportion to their weights. Recipes without domains share all
// other tasks. A choice reserves a place in each of its recipes, so recipes never exceed max_concurrent. Pure. Not
// thread safe: Runner holds its lock while calling it.
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
  static constexpr int kNone = -1;  // used instead of a recipe index

  struct Choice {
    std::map<std::string, int> by_domain;  // for each domain that a recipe lists
    int other = kNone;                     // for tasks in other domains; kNone = every recipe lists domains
  };

  explicit RecipeMix(const std::vector<RecipeOptions>& recipes);

  // Returns false if all recipes for some domain are at their limits.
  bool HasRoom() const { return Pick().has_value(); }
  // For each domain, returns the recipe furthest below its share. Returns nullopt if HasRoom is false.
  std::optional<Choice> Choose();
  // Called when an episode begins. Returns the recipe in `choice` for a task in `domain` and releases the places in the
  // other recipes. `domain` is the task's field; empty = `default`.
  int TakeRecipe(const Choice& choice, const std::string& domain);
  // Called if no episode begins. The choice then does not count toward the recipes' shares.
  void Drop(const Choice& choice);
  void Ended(int recipe) { --running_[static_cast<size_t>(recipe)]; }

  // Returns the recipe for a task in `domain`, or kNone.
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
  std::vector<int64_t> running_;  // episodes and reserved places, by recipe
};

// Returns true if the recipe may run a task in `domain`, given all `recipes`.
bool TakesDomain(const std::vector<RecipeOptions>& recipes, const RecipeOptions& recipe, const std::string& domain);

}  // namespace ingot::agents
