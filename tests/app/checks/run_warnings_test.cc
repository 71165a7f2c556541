#include "app/checks/run_warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace ingot::app {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A run that nobody would warning.
RunConfig SoundRun() {
  RunConfig config;
  config.tasks = "tasks.jsonl";
  config.sft_data = "sft.jsonl";
  config.eval.tasks = "eval.jsonl";
  config.trainer.total_steps = config.scheduler.total_steps = 40;
  config.scheduler.group_size = 8;
  config.scheduler.groups_per_step = 4;
  config.agents.concurrency = 8;
  config.agents.recipes.emplace_back();
  config.agents.recipes[0].timeout_s = 100;
  config.goal.first_steps = config.goal.last_steps = 5;
  return config;
}

DataFacts SoundData() {
  DataFacts data;
  data.tasks = 100;
  data.eval_tasks = 20;
  data.shown_tokens = 50;
  data.context = 512;
  return data;
}

struct StartCase {
  const char* name;
  std::function<void(RunConfig&, DataFacts&)> change;
  std::vector<const char*> words;  // the fact, the figure, the way on
};

TEST(StartWarnings, ASoundRunHasNone) {
  EXPECT_THAT(StartWarnings(SoundRun(), SoundData()), IsEmpty());
  EXPECT_THAT(StartWarnings(SoundRun(), {}), IsEmpty()) << "data that is not known";
}

// An outcome, Toggle, and critical steps in one of the domains.
std::vector<reward::TermOptions> TwoBudgets() {
  std::vector<reward::TermOptions> terms(3);
  terms[1].kind = "toggle";
  terms[2].kind = "critical_steps";
  terms[2].domains = {"orchestrate"};
  return terms;
}

TEST(StartWarnings, BudgetsThatNeverMeetOrTakeNoMoreThanTheOutcomeAreSound) {
  RunConfig config = SoundRun();
  config.rewards.terms = TwoBudgets();
  config.rewards.terms[1].domains = {"lookup"};
  EXPECT_THAT(StartWarnings(config, SoundData()), IsEmpty()) << "other domains";
  config.rewards.terms = TwoBudgets();
  config.rewards.terms[1].schedule = {.phase_steps = 20, .phase = 0};
  EXPECT_THAT(StartWarnings(config, SoundData()), ::testing::SizeIs(1)) << "even phases alone";
  config.rewards.terms[2].schedule = {.phase_steps = 20, .phase = 1};
  EXPECT_THAT(StartWarnings(config, SoundData()), IsEmpty()) << "other phases";
  config.rewards.terms = TwoBudgets();
  config.rewards.terms[1].schedule.until = config.rewards.terms[2].schedule.from = 0.5;
  EXPECT_THAT(StartWarnings(config, SoundData()), IsEmpty()) << "other times";
  config.rewards.terms = TwoBudgets();
  config.rewards.terms[1].weight = config.rewards.terms[2].weight = 0.5;
  EXPECT_THAT(StartWarnings(config, SoundData()), IsEmpty()) << "half of the outcome each";
}

TEST(StartWarnings, EachNamesItsFigureAndAWayOn) {
  const StartCase cases[] = {
      {"fast",
       [](RunConfig& c, DataFacts&) { c.trainer.optimizer.learning_rate = 1e3; },
       {"trainer.learning_rate is 1000", "lower it"}},
      {"slow",
       [](RunConfig& c, DataFacts&) { c.trainer.optimizer.learning_rate = 1e-12; },
       {"trainer.learning_rate is 1e-12", "raise it"}},
      {"sft",
       [](RunConfig& c, DataFacts&) { c.trainer.sft.optimizer.learning_rate = 0.5; },
       {"sft.learning_rate is 0.5", "lower it"}},
      {"dpo",
       [](RunConfig& c, DataFacts&) {
         c.dpo_data = "pairs.jsonl";
         c.trainer.dpo.optimizer.learning_rate = 0.5;
       },
       {"dpo.learning_rate is 0.5", "lower it"}},
      {"warm-up",
       [](RunConfig& c, DataFacts&) { c.trainer.optimizer.warmup_steps = 40; },
       {"trainer.warmup_steps is 40", "lower trainer.warmup_steps"}},
      {"idle stage", [](RunConfig& c, DataFacts&) { c.trainer.sft.epochs = 0; }, {"data.sft has no effect", "set one"}},
      {"groups of one",
       [](RunConfig& c, DataFacts&) {
         c.scheduler.group_size = 1;
         c.trainer.advantage_normalization = "group";
       },
       {"scheduler.group_size is 1", "to 2 or more"}},
      {"groups of one by terms",
       [](RunConfig& c, DataFacts&) {
         c.scheduler.group_size = 1;
         c.trainer.advantage_normalization = "terms";
       },
       {"advantage_normalization terms", "to 2 or more"}},
      {"few tasks", [](RunConfig&, DataFacts& d) { d.tasks = 3; }, {"3 tasks", "4 groups", "give more tasks"}},
      {"held out",
       [](RunConfig&, DataFacts& d) {
         d.shared = 7;
         d.shared_id = "sum-3";
       },
       {"7 of 20 tasks of eval.tasks are also training tasks", "'sum-3'", "remove them"}},
      {"context",
       [](RunConfig&, DataFacts& d) { d.context = 50; },
       {"50 tokens", "the context has only 50", "raise model.context_length"}},
      {"eval", [](RunConfig& c, DataFacts&) { c.tasks.clear(), c.goal = {}; }, {"eval.tasks has no effect", "name"}},
      {"goal", [](RunConfig& c, DataFacts&) { c.tasks.clear(), c.eval = {}; }, {"goal has no effect", "name"}},
      {"goal's steps",
       [](RunConfig& c, DataFacts&) { c.goal.last_steps = 41; },
       {"41 steps", "has 40 (scheduler.total_steps)", "raise scheduler.total_steps"}},
      {"deadline",
       [](RunConfig& c, DataFacts&) {
         c.agents.concurrency = 3;  // 8 samples by 3 at a time: 3 x 100 s
         c.scheduler.group_deadline_seconds = 200;
       },
       {"a group may take 300 s", "scheduler.group_deadline_s=200", "raise the deadline"}},
      {"a judge in the agent's image",
       [](RunConfig& c, DataFacts&) {
         c.agents.recipes[0].name = "shop";
         c.agents.recipes[0].image = "folder:shop";
         c.agents.recipes[0].verifier.kind = "command";
       },
       {"'shop'", "an image that the agent can change", "set verifier_sandbox: pristine"}},
      {"a clip beside a cap",
       [](RunConfig& c, DataFacts&) {
         c.trainer.objective = "ppo_clip";
         c.trainer.importance_cap = 2;
         c.trainer.eps_clip_high = 0.3;
       },
       {"trainer.eps_clip_high is 0.3 but has no effect", "trainer.importance_cap is 2",
        "importance_cap to 0 to clip"}},
      {"truncated samples",
       [](RunConfig& c, DataFacts&) { c.gateway.train_sampling.top_p = 0.5f; },
       {"gateway.train_sampling.top_p is 0.5", "biased", "set top_p to 1"}},
      {"the most likely tokens alone",
       [](RunConfig& c, DataFacts&) { c.gateway.train_sampling.top_k = 20; },
       {"gateway.train_sampling.top_k is 20", "biased", "top_k to 0"}},
      {"likely tokens alone",
       [](RunConfig& c, DataFacts&) { c.gateway.train_sampling.min_p = 0.25f; },
       {"gateway.train_sampling.min_p is 0.25", "biased", "min_p to 0"}},
      {"the constant of short answers",
       [](RunConfig& c, DataFacts& d) {
         c.trainer.preset = "dr_grpo";
         c.trainer.loss_aggregation = "constant";
         c.trainer.loss_constant_tokens = 1024;
         d.context = 32768;
       },
       {"dr_grpo divides an episode's loss by 1024 tokens", "has 32768", "set trainer.loss_constant_tokens"}},
      {"fast for a large model",
       [](RunConfig&, DataFacts& d) { d.parameters = 494'000'000; },
       {"trainer.learning_rate is 0.0001 for all 494 million weights", "lower it, or train adapters"}},
      {"a penalty without pull",
       [](RunConfig& c, DataFacts&) {
         c.trainer.kl_kind = "k1";
         c.trainer.reference_kl_coefficient = 0.04;
       },
       {"trainer.kl_kind k1", "reference_kl_coefficient 0.04", "set trainer.kl_kind to k2 or k3"}},
      {"the outcome is taken twice",
       [](RunConfig& c, DataFacts&) { c.rewards.terms = TwoBudgets(); },
       {"toggle and critical_steps both subtract the outcome", "gets -1", "separate domains"}},
  };
  for (const StartCase& one : cases) {
    RunConfig config = SoundRun();
    DataFacts data = SoundData();
    one.change(config, data);
    const std::vector<std::string> warnings = StartWarnings(config, data);
    ASSERT_EQ(warnings.size(), 1u) << one.name << ": " << ::testing::PrintToString(warnings);
    for (const char* words : one.words) EXPECT_THAT(warnings[0], HasSubstr(words)) << one.name;
    EXPECT_EQ(warnings[0].find('\n'), std::string::npos) << one.name;
  }
}

TEST(StartWarnings, SettingsOfTheLossThatAreMeantRaiseNone) {
  RunConfig config = SoundRun();
  DataFacts data = SoundData();
  data.parameters = 494'000'000;
  config.trainer.optimizer.learning_rate = 1e-6;
  EXPECT_THAT(StartWarnings(config, data), IsEmpty()) << "a low rate";
  config.trainer.optimizer.learning_rate = 1e-4;
  config.model.lora.rank = 8;
  EXPECT_THAT(StartWarnings(config, data), IsEmpty()) << "adapters";
  config.trainer.preset = "dapo";
  config.trainer.objective = "ppo_clip";
  config.trainer.eps_clip_low = 0.2;
  config.trainer.eps_clip_high = 0.28;
  config.trainer.importance_cap = 2;
  EXPECT_THAT(StartWarnings(config, data), IsEmpty()) << "bounds that the preset set";
  config.trainer.preset = "dr_grpo";
  config.trainer.eps_clip_high = 0.2;
  config.trainer.loss_aggregation = "constant";
  config.trainer.loss_constant_tokens = 20000;
  data.context = 32768;
  EXPECT_THAT(StartWarnings(config, data), IsEmpty()) << "a constant of the run's own";
  config.tasks.clear();
  config.eval = {};
  config.goal = {};
  config.gateway.train_sampling.top_p = 0.5f;
  EXPECT_THAT(StartWarnings(config, data), IsEmpty()) << "supervised alone";
}

TEST(StartWarnings, RatesOfStagesWithoutDataAreNotJudged) {
  RunConfig config = SoundRun();
  config.trainer.dpo.optimizer.learning_rate = config.trainer.sft.optimizer.learning_rate = 1e3;
  config.sft_data.clear();
  EXPECT_THAT(StartWarnings(config, SoundData()), IsEmpty());
}

RunTally SoundTally() {
  RunTally tally;
  for (int i = 0; i < 40; ++i) tally.rewards.push_back(0.2 + 0.015 * i + (i % 2 == 0 ? 0.05 : -0.05));
  tally.mismatch_max = 2e-6;
  for (const char* metric :
       {"agent/malformed_ratio", "agent/truncated_ratio", "signal/answer_malformed", "agent/crash", "agent/timeout",
        "reward/frac_zero_std", "trainer/skipped", "actor/clipfrac_low", "actor/clipfrac_high"}) {
    tally.means[metric] = {.sum = 0.02 * 40, .steps = 40};
  }
  tally.means["trainer/step_scale"] = {.sum = 39, .steps = 40};
  return tally;
}

TEST(EndWarnings, ASoundRunHasNone) {
  EXPECT_THAT(EndWarnings(SoundRun(), SoundTally()), IsEmpty());
  EXPECT_THAT(EndWarnings(SoundRun(), {}), IsEmpty()) << "a run without a step";
}

TEST(EndWarnings, EachNamesItsFigureAndAWayOn) {
  struct Case {
    const char* name;
    std::function<void(RunTally&)> change;
    std::vector<const char*> words;
  };
  const auto mean = [](const char* metric, double value) {
    return [=](RunTally& tally) { tally.means[metric] = {.sum = value * 40, .steps = 40}; };
  };
  const Case cases[] = {
      {"malformed", mean("agent/malformed_ratio", 1), {"100 %", "agent/malformed_ratio", "model.chat_format"}},
      {"truncated", mean("agent/truncated_ratio", 0.75), {"75 %", "agent/truncated_ratio", "gateway.max_new_tokens"}},
      {"answer", mean("signal/answer_malformed", 0.9), {"90 %", "signal/answer_malformed", "answer_from"}},
      {"crash", mean("agent/crash", 0.9), {"90 %", "agent/crash", "ingot inspect"}},
      {"timeout", mean("agent/timeout", 0.9), {"90 %", "agent/timeout", "timeout_s"}},
      {"no variance", mean("reward/frac_zero_std", 0.95), {"95 %", "reward/frac_zero_std", "scheduler.group_size"}},
      {"skipped", mean("trainer/skipped", 0.2), {"20 %", "trainer/skipped", "trainer.learning_rate"}},
      {"clipped", mean("actor/clipfrac_high", 0.4), {"42 %", "actor/clipfrac_high", "trainer.learning_rate"}},
      {"taken back", mean("trainer/step_scale", 0.25), {"25 %", "trainer/step_scale", "trainer.max_step_kl"}},
      {"mismatch", [](RunTally& t) { t.mismatch_max = 0.3; }, {"3.00e-01", "less than 0.001", "numerics=exact"}},
      {"falls",
       [](RunTally& t) {
         for (double& reward : t.rewards) reward = 1 - reward;
       },
       {"fell from 0.73", "(first 10 steps) to 0.283 (last 10)", "trainer.learning_rate"}},
      {"constant", [](RunTally& t) { t.rewards.assign(12, 0); }, {"was 0 at each of 12 steps", "verifier"}},
  };
  for (const Case& one : cases) {
    RunTally tally = SoundTally();
    one.change(tally);
    const std::vector<std::string> warnings = EndWarnings(SoundRun(), tally);
    ASSERT_EQ(warnings.size(), 1u) << one.name << ": " << ::testing::PrintToString(warnings);
    for (const char* words : one.words) EXPECT_THAT(warnings[0], HasSubstr(words)) << one.name;
    EXPECT_EQ(warnings[0].find('\n'), std::string::npos) << one.name;
  }
}

// A successful run that trains only on a teacher, so its rewards and the spread of each group are 0.
RunConfig Distillation() {
  RunConfig config = SoundRun();
  config.rewards.terms.resize(1);
  config.rewards.terms[0].kind = "teacher";
  return config;
}

RunTally DistillationTally() {
  RunTally tally = SoundTally();
  tally.reward = {"outcome", "reward/outcome"};
  tally.curves = {{{"reverse KL", "reward/term/teacher/reverse_kl"}, {}}};
  for (size_t i = 0; i < tally.rewards.size(); ++i) tally.curves[0].values.push_back(2 - 0.04 * static_cast<double>(i));
  tally.means["reward/frac_zero_std"] = {1, 1};
  return tally;
}

TEST(EndWarnings, ATeacherAloneNeedsNoRewardAndNoSpread) {
  EXPECT_THAT(EndWarnings(Distillation(), DistillationTally()), IsEmpty());
  RunTally tally = DistillationTally();
  tally.rewards.assign(14, 0);
  EXPECT_THAT(EndWarnings(Distillation(), tally), IsEmpty()) << "the tokens teach, whatever the verifier says";
  RunConfig alone = Distillation();
  alone.scheduler.group_size = 1;
  EXPECT_THAT(StartWarnings(alone, SoundData()), IsEmpty());
}

TEST(EndWarnings, OfATeacherNameWhatIsWrong) {
  RunTally tally = DistillationTally();
  std::reverse(tally.curves[0].values.begin(), tally.curves[0].values.end());
  EXPECT_THAT(EndWarnings(Distillation(), tally),
              ElementsAre(AllOf(HasSubstr("reverse KL (reward/term/teacher/reverse_kl) rose from 0.62"),
                                HasSubstr("trainer.learning_rate"))));
  tally = DistillationTally();
  std::reverse(tally.rewards.begin(), tally.rewards.end());
  EXPECT_THAT(EndWarnings(Distillation(), tally), ElementsAre(HasSubstr("the outcome fell from ")));
}

TEST(EndWarnings, ExactNumericsToleratesNoMismatchAndBf16More) {
  RunConfig config = SoundRun();
  RunTally tally = SoundTally();
  config.numerics = kernels::Numerics::kExact;
  EXPECT_THAT(EndWarnings(config, tally), ElementsAre(AllOf(HasSubstr("2.00e-06"), HasSubstr("0 is usual"))));
  config.numerics = kernels::Numerics::kFast;
  config.trainer.dtype = "bf16";
  tally.mismatch_max = 0.3;
  EXPECT_THAT(EndWarnings(config, tally), IsEmpty());
}

TEST(EndWarnings, NoiseAndStepsWithoutARewardAreNoFall) {
  RunTally tally = SoundTally();
  for (size_t i = 0; i < tally.rewards.size(); ++i)
    tally.rewards[i] = (i * 7 % 11) * 0.1 - 0.002 * static_cast<double>(i);
  EXPECT_THAT(EndWarnings(SoundRun(), tally), IsEmpty());
  tally.rewards.assign(40, std::nan(""));
  EXPECT_THAT(EndWarnings(SoundRun(), tally), IsEmpty());
  tally.rewards = {1, 0.5, 0};  // too few steps
  EXPECT_THAT(EndWarnings(SoundRun(), tally), IsEmpty());
}

}  // namespace
}  // namespace ingot::app
