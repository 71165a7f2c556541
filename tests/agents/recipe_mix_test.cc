#include "agents/recipe_mix.h"

#include <gtest/gtest.h>

#include <map>

namespace ingot::agents {
namespace {

RecipeOptions Named(const std::string& name, double weight, std::vector<std::string> domains = {}, int most = 0) {
  RecipeOptions options;
  options.name = name;
  options.weight = weight;
  options.domains = std::move(domains);
  options.max_concurrent = most;
  return options;
}

// Starts and ends an episode of each domain in turn; the counts by "domain recipe".
std::map<std::string, int> Shares(const std::vector<RecipeOptions>& recipes, const std::vector<std::string>& domains,
                                  int episodes) {
  RecipeMix mix(recipes);
  std::map<std::string, int> counts;
  for (int i = 0; i < episodes; ++i) {
    const std::string& domain = domains[static_cast<size_t>(i) % domains.size()];
    const auto choice = mix.Choose();
    const int recipe = mix.TakeRecipe(*choice, domain);
    ++counts[domain + " " + (recipe == RecipeMix::kNone ? "none" : recipes[static_cast<size_t>(recipe)].name)];
    if (recipe != RecipeMix::kNone) mix.Ended(recipe);
  }
  return counts;
}

TEST(RecipeMixTest, SharesEachDomainByTheWeightsOfItsOwnRecipes) {
  const std::vector<RecipeOptions> recipes = {Named("a", 3, {"code"}), Named("b", 1, {"code", "maths"}), Named("c", 1),
                                              Named("d", 3)};
  EXPECT_EQ(
      Shares(recipes, {"code", "maths", "chat"}, 120),
      (std::map<std::string, int>{{"code a", 30}, {"code b", 10}, {"maths b", 40}, {"chat c", 10}, {"chat d", 30}}));
  // Domains that no recipe names are one share.
  const std::map<std::string, int> other = Shares(recipes, {"", "", "chat"}, 120);
  EXPECT_EQ(other.at(" c") + other.at("chat c"), 30);
}

TEST(RecipeMixTest, ATaskWithoutADomainIsOfTheDomainDefault) {
  EXPECT_EQ(Shares({Named("a", 1, {"default"}), Named("b", 1)}, {"", "default", "chat"}, 6),
            (std::map<std::string, int>{{" a", 2}, {"default a", 2}, {"chat b", 2}}));
}

TEST(RecipeMixTest, ATaskOfADomainThatNoRecipeNamesHasNone) {
  EXPECT_EQ(Shares({Named("a", 1, {"code"})}, {"code", "maths"}, 4),
            (std::map<std::string, int>{{"code a", 2}, {"maths none", 2}}));
}

TEST(RecipeMixTest, HoldsAPlaceOfEveryRecipeUntilTheDomainIsKnown) {
  const std::vector<RecipeOptions> recipes = {Named("a", 1, {"code"}, 1), Named("b", 1)};
  RecipeMix mix(recipes);
  const auto first = mix.Choose();
  ASSERT_TRUE(first.has_value());
  EXPECT_FALSE(mix.HasRoom()) << "the first may become an episode of a";
  EXPECT_EQ(mix.TakeRecipe(*first, "chat"), 1);
  const auto second = mix.Choose();
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(mix.TakeRecipe(*second, "code"), 0);
  EXPECT_FALSE(mix.Choose().has_value()) << "a runs one already";
  mix.Ended(0);
  EXPECT_TRUE(mix.HasRoom());
}

TEST(RecipeMixTest, ARejectedOpeningCountsForNobody) {
  const std::vector<RecipeOptions> recipes = {Named("a", 1), Named("b", 1)};
  RecipeMix mix(recipes);
  for (int i = 0; i < 3; ++i) {
    const auto choice = mix.Choose();
    EXPECT_EQ(choice->other, 0) << "neither has started one";
    mix.Drop(*choice);
  }
}

TEST(RecipeMixTest, SaysWhichRecipesMayRunADomain) {
  const std::vector<RecipeOptions> recipes = {Named("a", 1, {"code"}), Named("b", 1)};
  EXPECT_TRUE(TakesDomain(recipes, recipes[0], "code"));
  EXPECT_FALSE(TakesDomain(recipes, recipes[1], "code"));
  EXPECT_FALSE(TakesDomain(recipes, recipes[0], ""));
  EXPECT_TRUE(TakesDomain(recipes, recipes[1], ""));
}

}  // namespace
}  // namespace ingot::agents
