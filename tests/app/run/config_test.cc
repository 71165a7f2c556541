// The configuration's derived parts: presets become explicit settings, supervised runs need no tasks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "app/run/run_config.h"
#include "trainer/presets.h"

namespace ingot::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kAgents[] =
    "data:\n  tasks: tasks.jsonl\nagents:\n  recipes:\n    - name: a\n      command: [\"/bin/true\"]\n";

absl::StatusOr<LoadedConfig> Load(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const std::string path = absl::StrCat(testing::TempDir(), "/run_config_", ::getpid(), ".yaml");
  std::ofstream(path) << text;
  auto loaded = LoadRunConfig(path, overrides);
  std::remove(path.c_str());
  return loaded;
}

TEST(ConfigDir, IsTheAbsoluteFolderOfTheFileForItsValuesAndForOverrides) {
  const std::string folder = absl::StrCat(testing::TempDir(), "config_dir_", ::getpid());
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/run.yaml") << R"(
data: {tasks: "${config_dir}/tasks.jsonl"}
agents: {recipes: [{name: a, command: ["${config_dir}/agent"]}]}
)";
  const auto loaded = LoadRunConfig(folder + "/run.yaml", {"run.root=${config_dir}/runs"});
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config->tasks, folder + "/tasks.jsonl");
  EXPECT_EQ(loaded->config->agents.recipes[0].command[0], folder + "/agent");
  EXPECT_EQ(loaded->config->datapool.path, folder + "/runs/run/pool");
  EXPECT_THAT(loaded->schema.EffectiveYaml(), HasSubstr("visible: [" + folder + "]"))
      << "for agents, in launched roles too";
  EXPECT_THAT(Load(loaded->schema.EffectiveYaml())->schema.EffectiveYaml(), loaded->schema.EffectiveYaml());
  EXPECT_EQ(ConfigDir("demo/../run.yaml"), ConfigDir("run.yaml"));
  EXPECT_EQ(ConfigDir("/a/b/run.yaml"), "/a/b");
}

TEST(Presets, AllLoad) {
  for (const std::string& name : trainer::PresetNames()) {
    const auto loaded = Load(kAgents, {"trainer.preset=" + name});
    EXPECT_TRUE(loaded.ok()) << name << ": " << loaded.status();
  }
}

TEST(Presets, AppearInTheEffectiveConfiguration) {
  const auto loaded = Load(kAgents, {"trainer.preset=forge"});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const trainer::TrainerOptions& options = loaded->config->trainer;
  EXPECT_EQ(options.loss_aggregation, "prompt");
  EXPECT_EQ(options.advantage_credit, "reward_to_go");
  EXPECT_EQ(options.advantage_baseline, "leave_one_out");
  const std::string yaml = loaded->schema.EffectiveYaml();
  EXPECT_THAT(yaml, HasSubstr("advantage_credit: reward_to_go"));
  EXPECT_THAT(loaded->schema.Origin("trainer.advantage_credit"), HasSubstr("preset forge"));
  // The printed configuration means the same when it is loaded again.
  const auto again = Load(yaml);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->schema.EffectiveYaml(), yaml);
}

TEST(Presets, LeaveExplicitSettings) {
  const auto loaded = Load(absl::StrCat(kAgents, "trainer:\n  preset: dapo\n  eps_clip_high: 0.3\n"),
                           {"trainer.loss_aggregation=prompt"});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config->trainer.eps_clip_high, 0.3);
  EXPECT_EQ(loaded->config->trainer.eps_clip_low, 0.2);
  EXPECT_EQ(loaded->config->trainer.loss_aggregation, "prompt");
  EXPECT_TRUE(loaded->config->trainer.filter_zero_variance);
}

TEST(Presets, ContradictionsAreFoundAfterExpansion) {
  const auto loaded = Load(kAgents, {"trainer.preset=gspo", "trainer.loss_aggregation=token"});
  EXPECT_THAT(std::string(loaded.status().message()), HasSubstr("one loss term per sequence"));
  EXPECT_THAT(std::string(Load(kAgents, {"trainer.preset=gpso"}).status().message()), HasSubstr("gspo"));
}

TEST(RunConfig, MasksNeedAPolicyLoss) {
  const std::vector<std::string> masks = {
      "trainer.mask_token_ratio_low=0.5",     "trainer.mask_token_ratio_high=5", "trainer.mask_sequence_ratio_low=0.9",
      "trainer.mask_sequence_ratio_high=1.1", "trainer.opsm_delta=0.1",          "trainer.truncated=mask_episode"};
  const auto loaded = Load(kAgents, masks);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config->trainer.off_policy_mask.sequence_high, 1.1);
  EXPECT_EQ(loaded->config->trainer.truncated, "mask_episode");
  for (const std::string& mask : masks) {
    EXPECT_THAT(std::string(Load("data:\n  sft: x.jsonl\n", {mask}).status().message()),
                HasSubstr("nothing is sampled"))
        << mask;
  }
}

TEST(RunConfig, MetricsOverTcpNeedAnAdminKey) {
  const auto loaded = Load(kAgents, {"metrics.max_labels=3"});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config->metrics.max_labels, 3);
  EXPECT_EQ(loaded->config->metrics.port, 0);
  EXPECT_THAT(std::string(Load(kAgents, {"metrics.port=9464"}).status().message()),
              HasSubstr("gateway.admin_key_file"));
  EXPECT_TRUE(Load(kAgents, {"metrics.port=9464", "gateway.admin_key_file=key"}).ok());
  for (const char* wrong : {"metrics.port=-1", "metrics.port=65536", "metrics.max_labels=0"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Load(kAgents, {wrong, "gateway.admin_key_file=key"}).status())) << wrong;
  }
}

TEST(RunConfig, AChatFormatIsRejectedAtItsLineWithTheChoices) {
  const auto said = [](const std::string& format) {
    return std::string(Load(absl::StrCat(kAgents, "model:\n  chat_format: ", format, "\n")).status().message());
  };
  const std::string message = said("hermess");
  EXPECT_THAT(message,
              HasSubstr(".yaml:8: model.chat_format is 'hermess': it must be auto, hermes, compact, template, or "
                        "template:NAME, where NAME is "));
  EXPECT_THAT(said("template:qwen9"), HasSubstr(":8: model.chat_format is 'template:qwen9': it must be auto"));
  EXPECT_LE(said(std::string(70'000, 'w')).size(), 1000u);
  EXPECT_THAT(said("template"), HasSubstr("model.chat_format is template, but model.path is not set"));
  for (const char* format : {"auto", "hermes", "compact", "''"})
    EXPECT_TRUE(Load(absl::StrCat(kAgents, "model:\n  chat_format: ", format, "\n")).ok()) << format << said(format);
  for (const char* format : {"template", "template:hermes", "template:qwen3"})
    EXPECT_TRUE(Load(absl::StrCat(kAgents, "model: {path: folder, chat_format: '", format, "'}\n")).ok()) << format;
  EXPECT_THAT(std::string(Load(kAgents, {"model.chat_format=x"}).status().message()),
              HasSubstr("--set model.chat_format is 'x': it must be auto"));
}

TEST(RunConfig, TheSchedulerGetsKeepSteps) {
  const auto all = Load(kAgents), some = Load(kAgents, {"datapool.keep_steps=50", "trainer.keep_checkpoints=3"});
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_TRUE(some.ok()) << some.status();
  EXPECT_EQ(all->config->scheduler.keep_steps, 0);
  EXPECT_EQ(some->config->scheduler.keep_steps, 50);
  EXPECT_EQ(some->config->scheduler.keep_checkpoints, 3);
  EXPECT_THAT(std::string(Load(kAgents, {"datapool.keep_steps=-1"}).status().message()), HasSubstr("keep_steps is -1"));
}

TEST(RunConfig, NumericsIsOneKeyForTheWholeRun) {
  const auto fast = Load(kAgents), exact = Load(kAgents, {"numerics=exact"});
  ASSERT_TRUE(fast.ok()) << fast.status();
  ASSERT_TRUE(exact.ok()) << exact.status();
  EXPECT_EQ(fast->config->trainer.numerics, kernels::Numerics::kFast);
  EXPECT_EQ(exact->config->trainer.numerics, kernels::Numerics::kExact);
  EXPECT_THAT(exact->schema.EffectiveYaml(), HasSubstr("numerics: exact"));
  EXPECT_EQ(exact->config->device, "cpu");  // auto
  const auto on_cuda = Load(kAgents, {"numerics=exact", "device=cuda"});
  ASSERT_TRUE(on_cuda.ok()) << on_cuda.status();
  EXPECT_EQ(on_cuda->config->device, "cuda");
  EXPECT_FALSE(Load(kAgents, {"numerics=close"}).ok());
}

TEST(RunConfig, ASharedDeviceNeedsEnginesThatCanBeParked) {
  EXPECT_TRUE(Load(kAgents, {"cluster.placement=shared"}).ok());
  EXPECT_TRUE(Load(kAgents, {"cluster.placement=shared", "device=cuda"}).ok());
  for (const auto& [setting, words] : std::initializer_list<std::pair<const char*, const char*>>{
           {"rollout.kv_store.path=/kv", "rollout.kv_store.path is set"},
           {"cluster.takeover_engines=1", "cluster.takeover_engines is above 0"}}) {
    EXPECT_TRUE(Load(kAgents, {setting}).ok()) << setting;
    EXPECT_THAT(std::string(Load(kAgents, {"cluster.placement=shared", setting}).status().message()),
                HasSubstr(std::string("cluster.placement is shared, and ") + words));
  }
}

TEST(RunConfig, CountsOutOfRangeAreRejected) {
  for (const auto& [setting, words] : std::initializer_list<std::pair<const char*, const char*>>{
           {"goal.first_steps=-1", "goal.first_steps"},
           {"goal.last_steps=-1", "goal.last_steps"},
           {"eval.every_versions=-1", "eval.every_versions"},
           {"eval.max_new_tokens=-1", "eval.max_new_tokens is -1: it must be 0 or greater"},
           {"compute.rollout_threads=3", "compute.rollout_threads 3 is more than compute.threads 2"}}) {
    const auto loaded = Load(kAgents, {"compute.threads=2", setting});
    EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument) << setting;
    EXPECT_THAT(std::string(loaded.status().message()), HasSubstr(words));
  }
}

TEST(RunConfig, AnAdapterToGoOnFromNeedsARankAndABase) {
  const std::string init = "trainer.lora.init=/adapter", rank = "trainer.lora.rank=4", path = "model.path=/base";
  EXPECT_TRUE(Load(kAgents, {init, rank, path}).ok());
  EXPECT_THAT(std::string(Load(kAgents, {init, path}).status().message()), HasSubstr("trainer.lora.rank is 0"));
  EXPECT_THAT(std::string(Load(kAgents, {init, rank}).status().message()), HasSubstr("model.path is not set"));
}

TEST(RunConfig, AnAlphaIsOfTheAdapterUntilItIsGiven) {
  const auto plain = Load(kAgents), given = Load(kAgents, {"trainer.lora.alpha=32"});
  ASSERT_TRUE(plain.ok() && given.ok()) << given.status();
  EXPECT_EQ(plain->config->model.lora.alpha, 0);
  EXPECT_EQ(given->config->model.lora.alpha, 32);
  EXPECT_THAT(std::string(Load(kAgents, {"trainer.lora.alpha=-1"}).status().message()),
              HasSubstr("trainer.lora.alpha is -1"));
}

TEST(RunConfig, AValueOutOfBoundsNamesItsKeyAndWhereItWasSet) {
  const auto fault = [](const std::string& text, const std::vector<std::string>& overrides) {
    return std::string(Load(text, overrides).status().message());
  };
  const std::string agents = kAgents;
  EXPECT_THAT(fault(agents + "gateway:\n  max_new_tokens: 0\n", {}),
              HasSubstr(".yaml:8: gateway.max_new_tokens is 0: it must be greater than 0"));
  EXPECT_EQ(fault(agents, {"cluster.gateways=65"}), "--set cluster.gateways is 65: it must be in [1, 64]");
  EXPECT_EQ(fault(agents, {"eval.max_new_tokens=-1"}), "--set eval.max_new_tokens is -1: it must be 0 or greater");
  EXPECT_EQ(fault(agents, {"scheduler.sampling.domains={code: -1}"}),
            "--set scheduler.sampling.domains has -1 for 'code': it must be in [0, 1000000000]");
  EXPECT_THAT(fault(agents, {"gateway.train_sampling.temperature=0"}), HasSubstr("greedy sampling has no gradient"));
}

TEST(RunConfig, MinTrainerRanksIsAtMostTrainerRanks) {
  EXPECT_TRUE(Load(kAgents, {"cluster.trainer_ranks=3", "cluster.min_trainer_ranks=3"}).ok());
  const auto fault = [](const char* least) {
    return std::string(Load(kAgents, {"cluster.trainer_ranks=3", least}).status().message());
  };
  EXPECT_THAT(fault("cluster.min_trainer_ranks=0"),
              HasSubstr("cluster.min_trainer_ranks is 0: it must be greater than 0"));
  EXPECT_THAT(fault("cluster.min_trainer_ranks=4"), HasSubstr("cluster.min_trainer_ranks must be in [1, 3]"));
}

TEST(RunConfig, RolesDoNotListenAtIpv6Addresses) {
  for (const char* host : {"::1", "[::1]", "fd00::2", "10.0.0.5:80"}) {
    for (const char* key : {"cluster.host", "cluster.trainer_host"}) {
      const auto loaded = Load(kAgents, {absl::StrCat(key, "='", host, "'")});
      EXPECT_THAT(std::string(loaded.status().message()), HasSubstr(absl::StrCat(key, " is '", host, "'"))) << host;
    }
  }
  EXPECT_TRUE(Load(kAgents, {"cluster.host=10.0.0.5"}).ok());
}

TEST(RunConfig, AgentsMayComeFromElsewhere) {
  const std::string tasks = "data:\n  tasks: tasks.jsonl\n";
  const auto loaded = Load(tasks);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(loaded->config->agents.recipes.empty());
  // People try such agents against a run that waits for them; the run's own agents fail alike each time.
  EXPECT_EQ(loaded->config->scheduler.give_up_unstarted, 0);
  EXPECT_EQ(Load(kAgents, {"agents.concurrency=2"})->config->scheduler.give_up_unstarted, 16);
  EXPECT_EQ(Load(kAgents, {"agents.concurrency=30"})->config->scheduler.give_up_unstarted, 90);
  EXPECT_EQ(Load(kAgents, {"scheduler.give_up_unstarted=0"})->config->scheduler.give_up_unstarted, 0);
  EXPECT_THAT(std::string(Load(tasks, {"agents.concurrency=0"}).status().message()),
              HasSubstr("agents.concurrency is 0: it must be in [1, 4096]"));
}

absl::Status LoadVerifier(const std::string& verifier, agents::RunnerOptions& options) {
  base::Schema schema;
  schema.Section("agents", options);
  return schema.LoadText(absl::StrCat("agents: {recipes: [{name: a, command: [b], verifier: ", verifier, "}]}"),
                         "run.yaml");
}

TEST(Verifiers, AnOptionIsOfItsKindsAlone) {
  agents::RunnerOptions options;
  for (const char* wrong :
       {"{kind: exact, math: {workers: 3}}", "{kind: math, ignore_case: true}", "{kind: regex, tolerance: 1}",
        "{kind: exact, timeout_s: 5}", "{kind: code, code: {tests: x}, command: [a]}",
        "{kind: agent_posted, expected: x}", "{kind: harbor, timeout_is_zero: false}"}) {
    EXPECT_NE(LoadVerifier(wrong, options).message().find("this option needs a verifier of kind"), std::string::npos)
        << wrong;
  }
  EXPECT_EQ(LoadVerifier("{kind: exact, math: {workers: 3}}", options).message(),
            "run.yaml:1: verifier.math.workers: this option needs a verifier of kind math, but this one has kind exact "
            "(in agents.recipes[0])");
  for (const char* right :
       {"{kind: exact, ignore_case: true}", "{kind: math, math: {workers: 3}, expected: x}",
        "{kind: json_field, field: a, tolerance: 1}", "{kind: command, command: [a], timeout_s: 5}",
        "{kind: code, code: {tests: x}, timeout_s: 5}", "{kind: harbor, harbor: {tests: x, timeout_is_zero: false}}"}) {
    const absl::Status loaded = LoadVerifier(right, options);
    EXPECT_TRUE(loaded.ok()) << right << loaded;
  }
  EXPECT_EQ(options.recipes[0].verifier.harbor.tests, "x");
  EXPECT_TRUE(options.recipes[0].verifier.harbor.no_reward_is_zero);
  EXPECT_FALSE(options.recipes[0].verifier.harbor.timeout_is_zero);
}

TEST(RunConfig, AStageOfItsOwnNeedsTermsToJudge) {
  const auto fault = [](const char* terms) {
    return std::string(Load(kAgents, {"cluster.rewards_role=true", terms}).status().message());
  };
  EXPECT_THAT(fault("rewards.terms=[{kind: outcome}]"), HasSubstr("cluster.rewards_role is true"));
  EXPECT_EQ(fault("rewards.terms=[{kind: outcome}, {kind: length}]"), "");
}

TEST(RunConfig, ComparingTermsNeedsTerms) {
  const auto fault = [](const char* terms) {
    return std::string(Load(kAgents, {"trainer.advantage_normalization=terms", terms}).status().message());
  };
  EXPECT_THAT(fault("rewards.terms=[{kind: outcome}]"), HasSubstr("only the outcome, which has no terms"));
  EXPECT_EQ(fault("rewards.terms=[{kind: outcome}, {kind: length}]"), "");
}

// Only the stage reads the trees of a group, which tell the returns of its roles.
TEST(RunConfig, AdvantagesOfRolesNeedAStageAndNoTrunks) {
  const auto loaded = Load(kAgents, {"trainer.advantage_groups=role", "cluster.rewards_role=true"});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(loaded->config->has_reward_stage());
  EXPECT_FALSE(Load(kAgents)->config->has_reward_stage());
  EXPECT_THAT(std::string(Load(kAgents, {"trainer.advantage_groups=role", "agents.branching.width=2",
                                         "agents.branching.at=1", "scheduler.group_size=4"})
                              .status()
                              .message()),
              HasSubstr("no role can be credited"));
}

TEST(RunConfig, TheFormatOfTasksMustFitTheirPath) {
  EXPECT_THAT(std::string(Load(kAgents, {"data.format=harbor", "data.tasks=x.jsonl"}).status().message()),
              HasSubstr("data.format is harbor, and data.tasks (x.jsonl) is no folder"));
  EXPECT_TRUE(Load(kAgents, {"data.format=harbor", "data.tasks=/tmp"}).ok());
  EXPECT_THAT(std::string(Load(kAgents, {"data.format=jsonl", "eval.tasks={a: /tmp}"}).status().message()),
              HasSubstr("eval.tasks (/tmp) is a folder"));
  EXPECT_THAT(std::string(Load(kAgents, {"eval.tasks={a@b: x.jsonl}"}).status().message()),
              HasSubstr("eval.tasks: the set 'a@b' needs a name of 1 to 64 letters"));
  EXPECT_THAT(std::string(Load(kAgents, {"eval.tasks={a: ''}"}).status().message()), HasSubstr("has no file"));
  EXPECT_THAT(std::string(Load(kAgents, {"data.format=jsonl", "eval.tasks=/tmp"}).status().message()),
              HasSubstr("data.format is jsonl, and eval.tasks (/tmp) is a folder"));
}

TEST(RunConfig, VariablesOfTheTemplateAreCheckedByName) {
  const auto loaded = Load(kAgents, {"gateway.template_variables={enable_thinking: false, effort: low}"});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(base::PrintJson(loaded->config->gateway.template_variables), R"({"enable_thinking":false,"effort":"low"})");
  for (const char* name : {"messages", "tools", "add_generation_prompt", "eos_token"}) {
    EXPECT_THAT(
        std::string(Load(kAgents, {absl::StrCat("gateway.template_variables={", name, ": 1}")}).status().message()),
        HasSubstr(absl::StrCat("gateway: template_variables: '", name, "' is set when chat templates are rendered")));
  }
  EXPECT_THAT(std::string(Load(kAgents, {"gateway.template_variables={enable-thinking: 1}"}).status().message()),
              HasSubstr("is not a variable name"));
}

TEST(RunConfig, ATemplateNeedsTheFolderOfItsTokenizer) {
  EXPECT_THAT(std::string(Load(kAgents, {"model.chat_template=x.jinja"}).status().message()),
              HasSubstr("model.chat_template is x.jinja, but model.path is not set"));
  EXPECT_TRUE(Load(kAgents, {"model.chat_template=x.jinja", "model.path=m"}).ok());
}

TEST(RunConfig, SupervisedRunsNeedNoTasks) {
  EXPECT_THAT(std::string(Load("run:\n  name: a\n").status().message()), HasSubstr("nothing to train on"));
  for (const char* data : {"data:\n  sft: x.jsonl\n", "data:\n  dpo: x.jsonl\n"}) {
    const auto loaded = Load(data);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_THAT(std::string(RequireTasks(*loaded->config).message()), HasSubstr("data.tasks"));
  }
  EXPECT_TRUE(RequireTasks(*Load(kAgents)->config).ok());
}

TEST(RunConfig, SupervisedRunsNeedAStageWithSteps) {
  const std::string data = "data:\n  sft: x.jsonl\n";
  EXPECT_THAT(std::string(Load(data, {"sft.epochs=0"}).status().message()), HasSubstr("nothing to train"));
  EXPECT_TRUE(Load(data, {"sft.epochs=0", "sft.max_steps=1"}).ok());
  EXPECT_TRUE(Load(data, {"sft.epochs=0", "data.dpo=y.jsonl"}).ok());
  EXPECT_TRUE(Load(kAgents, {"data.sft=x.jsonl", "sft.epochs=0"}).ok());
}

TEST(Evaluation, TheBestModelIsKeptOnlyWhereTasksTellIt) {
  EXPECT_THAT(std::string(Load(kAgents, {"eval.keep_best=true"}).status().message()),
              HasSubstr("eval.keep_best has no effect without eval.tasks"));
  const auto kept = Load(kAgents, {"eval.keep_best=true", "eval.tasks=held_out.jsonl"});
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_TRUE(kept->config->eval.keep_best);
  EXPECT_THAT(std::string(Load(kAgents, {"trainer.keep_every=30"}).status().message()),
              HasSubstr("keep_every is 30, and checkpoint_every is 20"));
}

TEST(MaxEvaluations, IsBoundedBySchedulerAndEngines) {
  const std::string pins =
      "gateway:\n  models:\n    - {name: a, weights: pinned, version: 3}\n    - {name: b, weights: pinned, version: "
      "3}\n";
  const auto plain = Load(kAgents);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(MaxEvaluations(*plain->config), 4);
  const auto pinned = Load(kAgents + pins);
  ASSERT_TRUE(pinned.ok()) << pinned.status();
  EXPECT_EQ(MaxEvaluations(*pinned->config), 3);
  const std::vector<std::string> none = {"eval.tasks=held_out.jsonl", "eval.every_versions=10",
                                         "rollout.max_retained_versions=1"};
  EXPECT_TRUE(Load(kAgents, none).ok());
  const auto full = Load(kAgents + pins, none);
  EXPECT_EQ(full.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(full.status().message()), HasSubstr("rollout.max_retained_versions (1)"));
}

}  // namespace
}  // namespace ingot::app
