#include "agents/recipe_mix.h"

#include <algorithm>
#include <set>

#include "base/task_domain.h"

namespace ingot::agents {

RecipeMix::RecipeMix(const std::vector<RecipeOptions>& recipes) : recipes_(recipes), running_(recipes.size()) {
  for (size_t i = 0; i < recipes.size(); ++i) {
    const int index = static_cast<int>(i);
    for (const std::string& domain : recipes[i].domains) by_domain_[base::DomainOf(domain)].recipes.push_back(index);
    if (recipes[i].domains.empty()) other_.recipes.push_back(index);
  }
}

int RecipeMix::Next(const Share& share) const {
  int best = kNone;
  double best_share = 0;
  for (const int i : share.recipes) {
    const RecipeOptions& options = recipes_[static_cast<size_t>(i)];
    if (options.max_concurrent > 0 && running_[static_cast<size_t>(i)] >= options.max_concurrent) continue;
    const auto started = share.started.find(i);
    const int64_t count = started == share.started.end() ? 0 : started->second;
    const double share_after = static_cast<double>(count + 1) / options.weight;
    if (best != kNone && share_after >= best_share) continue;
    best = i;
    best_share = share_after;
  }
  return best;
}

std::optional<RecipeMix::Choice> RecipeMix::Pick() const {
  Choice choice;
  for (const auto& [domain, share] : by_domain_) {
    const int recipe = Next(share);
    if (recipe == kNone) return std::nullopt;
    choice.by_domain[domain] = recipe;
  }
  choice.other = Next(other_);
  if (choice.other == kNone && !other_.recipes.empty()) return std::nullopt;
  return choice;
}

std::optional<RecipeMix::Choice> RecipeMix::Choose() {
  std::optional<Choice> choice = Pick();
  if (!choice.has_value()) return choice;
  for (const auto& [domain, recipe] : choice->by_domain) ++by_domain_[domain].started[recipe];
  if (choice->other != kNone) ++other_.started[choice->other];
  Hold(*choice, 1);
  return choice;
}

int RecipeMix::TakeRecipe(const Choice& choice, const std::string& domain) {
  const int taken = RecipeFor(choice, domain);
  Drop(choice);
  if (taken == kNone) return kNone;
  ++running_[static_cast<size_t>(taken)];
  const auto named = by_domain_.find(base::DomainOf(domain));
  ++(named == by_domain_.end() ? other_ : named->second).started[taken];
  return taken;
}

void RecipeMix::Drop(const Choice& choice) {
  for (const auto& [domain, recipe] : choice.by_domain) --by_domain_[domain].started[recipe];
  if (choice.other != kNone) --other_.started[choice.other];
  Hold(choice, -1);
}

void RecipeMix::Hold(const Choice& choice, int64_t places) {
  std::set<int> held = {choice.other};
  for (const auto& [domain, recipe] : choice.by_domain) held.insert(recipe);
  held.erase(kNone);
  for (const int recipe : held) running_[static_cast<size_t>(recipe)] += places;
}

int RecipeMix::RecipeFor(const Choice& choice, const std::string& domain) {
  const auto named = choice.by_domain.find(base::DomainOf(domain));
  return named == choice.by_domain.end() ? choice.other : named->second;
}

bool TakesDomain(const std::vector<RecipeOptions>& recipes, const RecipeOptions& recipe, const std::string& domain) {
  const auto names = [&](const RecipeOptions& each) {
    return std::any_of(each.domains.begin(), each.domains.end(),
                       [&](const std::string& named) { return base::DomainOf(named) == base::DomainOf(domain); });
  };
  return names(recipe) || (recipe.domains.empty() && std::none_of(recipes.begin(), recipes.end(), names));
}

}  // namespace ingot::agents
