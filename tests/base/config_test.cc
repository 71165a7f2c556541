#include "base/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace ingot::base {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Recipe {
  std::string name;
  int32_t timeout_s = 60;
  std::vector<std::string> command;
};

void Bind(Schema& schema, Recipe& recipe) {
  schema.Field("name", &recipe.name, "names the recipe");
  schema.Field("timeout_s", &recipe.timeout_s, "seconds");
  schema.Field("command", &recipe.command, "argv");
}

struct Options {
  double rate = 1e-3;
  int64_t steps = 10;
  int32_t small = 0;
  bool on = false;
  std::string name = "x";
  std::string device = "auto";
  std::vector<std::string> words;
  std::map<std::string, std::string> env;
  std::vector<Recipe> recipes;
};

Schema Bind(Options& options) {
  Schema schema;
  schema.Field("trainer.learning_rate", &options.rate, "AdamW step size");
  schema.Field("trainer.total_steps", &options.steps, "optimizer steps");
  schema.Field("trainer.small", &options.small, "a small one");
  schema.Field("trainer.on", &options.on, "a switch");
  schema.Field("run.name", &options.name, "names the run");
  schema.Choice("device", &options.device, {"auto", "cpu", "cuda"}, "where to compute");
  schema.Field("run.words", &options.words, "words");
  schema.Field("run.env", &options.env, "environment");
  schema.List("agents.recipes", &options.recipes, "how agents are run");
  return schema;
}

std::string ErrorOf(const std::string& yaml) {
  Options options;
  Schema schema = Bind(options);
  const absl::Status status = schema.LoadText(yaml, "run.yaml");
  EXPECT_FALSE(status.ok()) << yaml;
  return std::string(status.message());
}

TEST(ConfigTest, AKeyMayTakeOneStringOrSeveralByName) {
  std::string one;
  std::map<std::string, std::string> several;
  Schema schema;
  schema.Field("eval.tasks", &one, &several, "a file, or several by name");
  ASSERT_TRUE(schema.LoadText("eval: {tasks: {a: x.jsonl, 7: y.jsonl}}", "run.yaml").ok());
  EXPECT_EQ(one, "");
  EXPECT_EQ(several, (std::map<std::string, std::string>{{"a", "x.jsonl"}, {"7", "y.jsonl"}}));
  const std::string written = schema.EffectiveYaml();
  ASSERT_TRUE(schema.Set("eval.tasks=z.jsonl").ok());
  EXPECT_EQ(one, "z.jsonl");
  EXPECT_TRUE(several.empty());
  ASSERT_TRUE(schema.LoadText(written, "config.yaml").ok());
  EXPECT_EQ(one, "");
  EXPECT_EQ(several.size(), 2u);
  EXPECT_EQ(schema.EffectiveYaml(), written);
  ASSERT_TRUE(schema.Set("eval.tasks=").ok());
  EXPECT_TRUE(one.empty() && several.empty());
  EXPECT_THAT(std::string(schema.Set("eval.tasks=[a]").message()), HasSubstr("a string or a mapping of strings"));
}

TEST(ConfigTest, AShorthandSetsOneKeyOfItsSection) {
  const auto bind = [](Options& options) {
    Schema schema = Bind(options);
    schema.Shorthand("run", [](const std::string& word) -> absl::StatusOr<std::string> {
      if (word == "bad") return absl::InvalidArgumentError("is bad");
      return std::string("run.name");
    });
    return schema;
  };
  Options from_file, from_set, from_section;
  Schema schema = bind(from_file);
  ASSERT_TRUE(schema.LoadText("device: cpu\nrun: here", "run.yaml").ok());
  EXPECT_EQ(from_file.name, "here");
  EXPECT_EQ(schema.Origin("run.name"), "run.yaml:2");
  EXPECT_THAT(schema.EffectiveYaml(), HasSubstr("name: here"));
  EXPECT_TRUE(bind(from_set).Set("run=there").ok());
  EXPECT_EQ(from_set.name, "there");
  EXPECT_TRUE(bind(from_section).LoadText("run: {name: mine}", "run.yaml").ok());
  EXPECT_EQ(from_section.name, "mine");
  EXPECT_EQ(bind(from_file).LoadText("run: bad", "run.yaml").message(), "run.yaml:1: run: is bad");
  EXPECT_EQ(bind(from_file).Set("run=bad").message(), "--set run: is bad");
  EXPECT_THAT(std::string(bind(from_file).LoadText("run: [a]", "run.yaml").message()), HasSubstr("a mapping of keys"));
}

TEST(ConfigTest, ReplacesVariablesInEveryValueOfFilesAndOverrides) {
  Options options;
  Schema schema = Bind(options);
  schema.Define("dir", "/a: {b}/${dir}");
  ASSERT_TRUE(schema.LoadText("run: {name: x}", "run.yaml").ok());
  EXPECT_FALSE(schema.Used("dir"));
  ASSERT_TRUE(schema
                  .LoadText(R"(
run: {name: "${dir}/x", words: ["${dir}", "$${dir}", "${other}"], env: {"${dir}": "-${dir}${dir}-"}}
agents: {recipes: [{name: "${dir}"}]}
)",
                            "run.yaml")
                  .ok());
  EXPECT_EQ(options.name, "/a: {b}/${dir}/x") << "a value is text, and not searched again";
  EXPECT_EQ(options.words, (std::vector<std::string>{"/a: {b}/${dir}", "$${dir}", "${other}"}));
  EXPECT_EQ(options.env, (std::map<std::string, std::string>{{"${dir}", "-/a: {b}/${dir}/a: {b}/${dir}-"}}));
  EXPECT_EQ(options.recipes[0].name, "/a: {b}/${dir}");
  EXPECT_TRUE(schema.Used("dir"));
  ASSERT_TRUE(schema.Set("run.name='${dir}'").ok());
  EXPECT_EQ(options.name, "/a: {b}/${dir}");
  const absl::Status named = schema.LoadText("trainer:\n  total_steps: ${dir}\n", "run.yaml");
  EXPECT_THAT(std::string(named.message()), HasSubstr("run.yaml:2: trainer.total_steps"));
}

TEST(ConfigTest, NamesTheDifferencesFromASchemaOfTheSameKeys) {
  Options ours, theirs;
  Schema schema = Bind(ours), other = Bind(theirs);
  EXPECT_TRUE(schema.DifferencesFrom(other).empty());
  const std::string both = "run: {name: same}\n";
  ASSERT_TRUE(schema.LoadText(both + "trainer: {total_steps: 7}\nagents: {recipes: [{name: a}]}\n", "run.yaml").ok());
  ASSERT_TRUE(other.LoadText(both, "other.yaml").ok());
  const auto differences = schema.DifferencesFrom(other);
  ASSERT_EQ(differences.size(), 2u);
  EXPECT_EQ(differences[0].key, "trainer.total_steps");
  EXPECT_EQ(differences[0].value, "7");
  EXPECT_EQ(differences[0].others, "10");
  EXPECT_EQ(differences[1].key, "agents.recipes");
  EXPECT_EQ(differences[1].others, "[]");
}

TEST(ConfigTest, SetsNestedKeysListsAndMaps) {
  Options options;
  Schema schema = Bind(options);
  const absl::Status status = schema.LoadText(R"(
trainer: {learning_rate: 2e-4, total_steps: 1_000, on: true}
run:
  name: "1"
  words: [a, "2"]
  env: {A: b}
device: cuda
agents:
  recipes:
    - {name: one, command: [python3, x.py]}
    - {name: two, timeout_s: 5}
)",
                                              "run.yaml");
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(options.rate, 2e-4);
  EXPECT_EQ(options.steps, 1000);
  EXPECT_TRUE(options.on);
  EXPECT_EQ(options.name, "1");
  EXPECT_EQ(options.words, (std::vector<std::string>{"a", "2"}));
  EXPECT_EQ(options.env.at("A"), "b");
  EXPECT_EQ(options.device, "cuda");
  ASSERT_EQ(options.recipes.size(), 2u);
  EXPECT_EQ(options.recipes[0].command[1], "x.py");
  EXPECT_EQ(options.recipes[0].timeout_s, 60);
  EXPECT_EQ(options.recipes[1].timeout_s, 5);
}

TEST(ConfigTest, AnUnknownKeyNamesFileLineAndTheNearestKnownKey) {
  const std::string error = ErrorOf("run:\n  name: a\ntrainer:\n  learning_rat: 1\n");
  EXPECT_THAT(error, HasSubstr("run.yaml:4"));
  EXPECT_THAT(error, HasSubstr("'trainer.learning_rat'"));
  EXPECT_THAT(error, HasSubstr("'trainer.learning_rate'"));
}

TEST(ConfigTest, AKeyInTheWrongSectionIsSuggestedInItsOwn) {
  EXPECT_THAT(ErrorOf("run: {learning_rate: 1}"), HasSubstr("'trainer.learning_rate'"));
}

TEST(ConfigTest, TheNewNameOfARenamedKeyIsSuggested) {
  Options options;
  Schema schema = Bind(options);
  schema.Renamed("trainer.speed", "trainer.learning_rate");
  for (const absl::Status& unknown : {schema.Set("trainer.speed=1"), schema.LoadText("trainer: {speed: 1}", "run.yaml"),
                                      schema.Explain("trainer.speed").status()}) {
    EXPECT_THAT(std::string(unknown.message()), HasSubstr("nearest known key is 'trainer.learning_rate'"));
  }
}

TEST(ConfigTest, ARemovedKeyLoadsAndCannotBeSet) {
  Options options;
  Schema schema = Bind(options);
  schema.Renamed("trainer.speed", "");
  EXPECT_TRUE(schema.LoadText("trainer: {speed: 1}", "run.yaml").ok());
  EXPECT_THAT(schema.EffectiveYaml(), Not(HasSubstr("speed")));
  EXPECT_THAT(std::string(schema.Set("trainer.speed=1").message()), HasSubstr("unknown key 'trainer.speed'"));
}

TEST(ConfigTest, ASectionIsSuggestedOnlyWhereOneIsAllowed) {
  EXPECT_THAT(ErrorOf("train: {learning_rate: 1}"), HasSubstr("nearest known key is 'trainer'"));
  Options options;
  Schema schema = Bind(options);
  EXPECT_THAT(std::string(schema.Explain("agent").status().message()), HasSubstr("nearest known key is 'agents'"));
  EXPECT_THAT(std::string(schema.Set("trainers=1").message()), HasSubstr("nearest known key is 'trainer.on'"));
}

TEST(ConfigTest, ASectionGivenAValueIsNamedAsOne) {
  Options options;
  Schema schema = Bind(options);
  for (const char* given : {"run=1", "run=null", "run="}) {
    const std::string said(schema.Set(given).message());
    EXPECT_THAT(said, StartsWith("--set run: 'run' is a section with the keys name, ")) << given;
    EXPECT_THAT(said, HasSubstr("set a key of it, --set run.KEY=VALUE")) << given;
    EXPECT_THAT(said, Not(HasSubstr("unknown"))) << given;
  }
  EXPECT_THAT(ErrorOf("run: 1"),
              HasSubstr("run.yaml:1: run: expected a mapping of keys: it is a section with the keys name"));
}

TEST(ConfigTest, ALongSectionShowsItsFirstKeys) {
  std::array<int64_t, 14> values = {};
  Schema schema;
  for (size_t i = 0; i < values.size(); ++i) schema.Field(absl::StrCat("many.k", i), &values[i], "a number");
  EXPECT_THAT(std::string(schema.Set("many=1").message()),
              HasSubstr("k0, k1, k2, k3, k4, k5, k6, k7, k8, k9, k10, k11 and 2 more"));
  int64_t one = 0;
  schema.Field("outer.inner.only", &one, "a number");
  EXPECT_THAT(std::string(schema.Set("outer=1").message()), HasSubstr("a section with the key inner:"));
}

TEST(ConfigTest, AnErrorOfAnIllTypedValueNamesTheExpectedType) {
  EXPECT_THAT(ErrorOf("trainer:\n  total_steps: ten"),
              HasSubstr("run.yaml:2: trainer.total_steps: expected an integer"));
  EXPECT_THAT(ErrorOf("trainer: {total_steps: 1.5}"), HasSubstr("expected an integer"));
  EXPECT_THAT(ErrorOf("trainer: {total_steps: \"5\"}"), HasSubstr("expected an integer"));
  EXPECT_THAT(ErrorOf("trainer: {small: 3000000000}"), HasSubstr("fits its type"));
  EXPECT_THAT(ErrorOf("trainer: {learning_rate: .nan}"), HasSubstr("number"));
  EXPECT_THAT(ErrorOf("trainer: {on: yes}"), HasSubstr("true or false"));
  EXPECT_THAT(ErrorOf("device: gpu"), HasSubstr("one of auto | cpu | cuda"));
  EXPECT_THAT(ErrorOf("trainer: 5"), HasSubstr("expected a mapping"));
  EXPECT_THAT(ErrorOf("run: {words: a}"), HasSubstr("list of strings"));
  EXPECT_THAT(ErrorOf("[1]"), HasSubstr("expected a mapping"));
  EXPECT_THAT(ErrorOf("agents: {recipes: [{nam: x}]}"), HasSubstr("agents.recipes[0]"));
}

TEST(ConfigTest, ErrorsQuoteOnlyTheBeginningOfALongText) {
  const std::string word(70'000, 'w');
  for (const std::string& text : {"trainer: {total_steps: " + word + "}", "trainer: {" + word + ": 1}", word + ": 1",
                                  "trainer: {total_steps: [" + word + "]}", "name: {a: " + word + "}",
                                  "trainer: {" + word + ": 1, " + word + ": 1}",
                                  "env: {" + word + ": 1, " + word + ": 2}", "words: " + word, "a: '" + word}) {
    Options options;
    const absl::Status status = Bind(options).LoadText(text, "run.yaml");
    EXPECT_FALSE(status.ok()) << text.substr(0, 30);
    EXPECT_LE(status.message().size(), 1000u) << text.substr(0, 30);
  }
  for (const std::string& assignment :
       {word, word + "=1", "trainer.total_steps=" + word, "trainer.total_steps=[" + word}) {
    Options options;
    const absl::Status status = Bind(options).Set(assignment);
    EXPECT_FALSE(status.ok()) << assignment.substr(0, 30);
    EXPECT_LE(status.message().size(), 1000u) << assignment.substr(0, 30);
  }
  Options options;
  EXPECT_LE(Bind(options).Explain(word).status().message().size(), 1000u);
}

TEST(ConfigTest, MalformedYamlAndDuplicateKeysNameTheLine) {
  EXPECT_THAT(ErrorOf("run:\n  name: [a\n"), HasSubstr("malformed YAML"));
  EXPECT_THAT(ErrorOf("run:\n  name: a\n  name: b\n"), HasSubstr("run.yaml:3: run.name: given twice"));
  EXPECT_THAT(ErrorOf("run:\n  env:\n    A: x\n    B: y\n    A: z\n"),
              HasSubstr("run.yaml:2: run.env: 'A' is given twice, again on line 5"));
  EXPECT_THAT(ErrorOf("run: {name: a}\n---\nrun: {name: b}\n"), HasSubstr("run.yaml:3: a second YAML document begins"));
}

TEST(ConfigTest, AFileHoldsOneDocumentWithOrWithoutItsMarkers) {
  Options options;
  Schema schema = Bind(options);
  EXPECT_TRUE(schema.LoadText("---\nrun: {name: a}\n...\n", "run.yaml").ok());
  EXPECT_EQ(options.name, "a");
  EXPECT_TRUE(schema.LoadText("# nothing\n", "run.yaml").ok());
  EXPECT_TRUE(schema.LoadText("", "run.yaml").ok());
}

TEST(ConfigTest, OverridesWinAndAreNamedInErrors) {
  Options options;
  Schema schema = Bind(options);
  ASSERT_TRUE(schema.LoadText("trainer: {total_steps: 3}", "run.yaml").ok());
  ASSERT_TRUE(schema.Set("trainer.total_steps=4").ok());
  EXPECT_EQ(options.steps, 4);
  EXPECT_EQ(schema.Origin("trainer.total_steps"), "--set trainer.total_steps");
  EXPECT_THAT(std::string(schema.Set("trainer.total_step=4").message()),
              HasSubstr("nearest known key is 'trainer.total_steps'"));
  EXPECT_THAT(std::string(schema.Set("trainer.words=[a]").message()), HasSubstr("nearest known key is 'run.words'"));
  EXPECT_THAT(std::string(schema.Set("run.dir=a").message()), HasSubstr("nearest known key is 'run.e"));
  EXPECT_THAT(std::string(schema.Set("trainer.total_steps=x").message()), HasSubstr("--set trainer.total_steps"));
  EXPECT_FALSE(schema.Set("trainer.total_steps").ok());
}

TEST(ConfigTest, TheEffectiveConfigurationLoadsBackEqual) {
  Options first, second;
  Schema a = Bind(first);
  ASSERT_TRUE(a.LoadText("run: {name: 'true', words: ['1', ''], env: {K: '0x1'}}\n"
                         "trainer: {learning_rate: 0.1, small: -7}\nagents: {recipes: [{name: n, command: ['']}]}",
                         "a")
                  .ok());
  Schema b = Bind(second);
  const absl::Status status = b.LoadText(a.EffectiveYaml(), "b");
  ASSERT_TRUE(status.ok()) << status << a.EffectiveYaml();
  EXPECT_EQ(a.EffectiveYaml(), b.EffectiveYaml());
  EXPECT_EQ(second.name, "true");
  EXPECT_EQ(second.words, first.words);
  EXPECT_EQ(second.rate, 0.1);
  EXPECT_EQ(second.recipes[0].command, first.recipes[0].command);
}

// A list of shapes: `side` is of squares alone, and the section `ring` of rings.
struct Shape {
  std::string kind = "square";
  int32_t side = 1, width = 1;
};
void Bind(Schema& schema, Shape& shape) {
  const auto guard = [&](const std::string& section, const std::string& kind) {
    schema.Guard(section, [&shape, kind] { return shape.kind == kind ? "" : "of a " + kind; });
  };
  schema.Field("side", &shape.side, "length");
  schema.Field("ring.width", &shape.width, "width");
  schema.Choice("kind", &shape.kind, {"square", "ring"}, "kind");
  guard("side", "square");
  guard("ring", "ring");
}

struct Shapes {
  std::vector<Shape> list;
  Schema schema;
  Shapes() { schema.List("shapes", &list, "shapes"); }
};

TEST(ConfigTest, AKeyWithoutAMeaningIsRejectedByItsLine) {
  Shapes shapes;
  EXPECT_EQ(shapes.schema.LoadText("shapes:\n  - side: 2\n  - ring:\n      width: 3\n    kind: ring\n", "s.yaml"),
            absl::OkStatus());
  EXPECT_EQ(shapes.schema.LoadText("shapes:\n  - side: 2\n  - ring:\n      width: 3\n", "s.yaml").message(),
            "s.yaml:4: ring.width: of a ring (in shapes[1])");
  EXPECT_EQ(shapes.schema.LoadText("shapes: [{kind: ring, side: 1}]", "s.yaml").message(),
            "s.yaml:1: side: of a square (in shapes[0])")
      << "also where the value is the default";
  EXPECT_THAT(std::string(shapes.schema.Set("shapes=[{kind: ring, side: 2}]").message()),
              HasSubstr("side: of a square"));
}

TEST(ConfigTest, TheEffectiveConfigurationLeavesOutKeysWithoutAMeaning) {
  Shapes first, second;
  ASSERT_TRUE(first.schema.LoadText("shapes: [{side: 2}, {kind: ring, ring: {width: 3}}]", "s.yaml").ok());
  const std::string yaml = first.schema.EffectiveYaml();
  EXPECT_EQ(second.schema.LoadText(yaml, "again.yaml"), absl::OkStatus()) << yaml;
  EXPECT_EQ(second.schema.EffectiveYaml(), yaml);
  EXPECT_EQ(second.list[0].side, 2);
  EXPECT_EQ(second.list[1].width, 3);
}

TEST(ConfigTest, AMappingOfValuesKeepsBoolsNumbersAndTextsApart) {
  json::object values, again;
  Schema schema, reloaded;
  schema.Field("run.values", &values, "values");
  reloaded.Field("run.values", &again, "values");
  const absl::Status status = schema.LoadText(R"(
run:
  values: {quiet: false, count: 3, rate: 0.5, effort: low, day: 2024-01-01, seven: "7", word: "true", tagged: !!str 8, none: ""}
)",
                                              "run.yaml");
  ASSERT_TRUE(status.ok()) << status;
  const std::string expected = R"({"quiet":false,"count":3,"rate":0.5,"effort":"low","day":"2024-01-01","seven":"7",)"
                               R"("word":"true","tagged":"8","none":""})";
  EXPECT_EQ(PrintJson(values), expected);
  const std::string yaml = schema.EffectiveYaml();
  ASSERT_EQ(reloaded.LoadText(yaml, "again.yaml"), absl::OkStatus()) << yaml;
  EXPECT_EQ(PrintJson(again), expected) << yaml;
  EXPECT_TRUE(schema.DifferencesFrom(reloaded).empty());
  ASSERT_TRUE(schema.Set("run.values={quiet: true}").ok());
  EXPECT_EQ(PrintJson(values), R"({"quiet":true})");
  const auto error = [&](const std::string& value) { return std::string(schema.Set("run.values=" + value).message()); };
  EXPECT_THAT(error("{quiet: False}"), HasSubstr("quiet: 'False' is neither true nor false"));
  EXPECT_THAT(error("{quiet: off}"), HasSubstr("use true or false"));
  EXPECT_THAT(error("{quiet: [1]}"), HasSubstr("a mapping of bools, numbers, and strings"));
  EXPECT_THAT(error("{quiet: null}"), HasSubstr("a mapping of bools, numbers, and strings"));
  EXPECT_THAT(error("{quiet: true, quiet: false}"), HasSubstr("given twice"));
}

TEST(ConfigTest, AKeyMayTakeOneTextOrAList) {
  std::string first;
  std::vector<std::string> more;
  Schema schema;
  schema.Field("data.tasks", &first, &more, "files");
  ASSERT_TRUE(schema.LoadText("data: {tasks: [a, b, c]}", "run.yaml").ok());
  EXPECT_EQ(first, "a");
  EXPECT_EQ(more, (std::vector<std::string>{"b", "c"}));
  const std::string yaml = schema.EffectiveYaml();
  EXPECT_THAT(yaml, HasSubstr("tasks: [a, b, c]"));
  ASSERT_TRUE(schema.Set("data.tasks=d").ok());
  EXPECT_EQ(first, "d");
  EXPECT_TRUE(more.empty());
  EXPECT_THAT(schema.EffectiveYaml(), HasSubstr("tasks: d"));
  ASSERT_TRUE(schema.LoadText(yaml, "again.yaml").ok());
  EXPECT_EQ(more.size(), 2u);
  for (const char* none : {"data.tasks=", "data.tasks=[]"}) {
    ASSERT_TRUE(schema.Set(none).ok()) << none;
    EXPECT_EQ(first, "");
    EXPECT_TRUE(more.empty());
  }
  for (const char* wrong : {"data.tasks={a: b}", "data.tasks=[[a]]", "data.tasks=[a, \"\"]"}) {
    EXPECT_THAT(std::string(schema.Set(wrong).message()), HasSubstr("a string or a list of strings")) << wrong;
  }
}

TEST(ConfigTest, ExplainListsTypeDefaultAndDocumentation) {
  Options options;
  Schema schema = Bind(options);
  EXPECT_THAT(*schema.Explain("trainer.learning_rate"), HasSubstr("number, default 0.001"));
  EXPECT_THAT(*schema.Explain("agents"), HasSubstr("agents.recipes[].timeout_s"));
  EXPECT_EQ(*schema.Explain("agents.recipes.timeout_s"), *schema.Explain("agents.recipes[].timeout_s"));
  EXPECT_THAT(std::string(schema.Explain("trainr").status().message()), HasSubstr("nearest"));
}

}  // namespace
}  // namespace ingot::base
