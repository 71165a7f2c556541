#include "app/checks/start_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "app/checks/supervised_examples.h"
#include "reward/terms/judge.h"

namespace ingot::app {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class StartChecked : public ::testing::Test {
 protected:
  StartChecked() {
    std::string name = ::testing::TempDir() + "/start_check_XXXXXX";
    folder_ = mkdtemp(name.data());
    config_.tasks = File("train.jsonl", R"({"task_id": "a", "prompt": "1+1", "answer": "2"}
{"task_id": "b", "prompt": "2+2", "answer": "4"}
)");
    config_.eval.tasks = File("eval.jsonl", R"({"task_id": "c", "prompt": "3+3", "answer": "6"})");
    config_.scheduler.groups_per_step = 2;
    config_.agents.work_root = folder_ + "/work";
    config_.agents.recipes.emplace_back();
    config_.agents.recipes[0].name = "adder";
    config_.agents.recipes[0].command = {"/bin/sh", "-c", "echo $1", "sh", "${task.prompt}"};
  }
  ~StartChecked() override { std::filesystem::remove_all(folder_); }

  std::string File(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text << "\n";
    return folder_ + "/" + name;
  }
  absl::StatusOr<StartCheck> Check(int64_t context = 512) const {
    return CheckStart(config_, *MakeTextParts("compact"), context);
  }
  std::vector<std::string> Warnings(int64_t context = 512) const {
    const auto check = Check(context);
    EXPECT_TRUE(check.ok()) << check.status();
    return check.ok() ? check->warnings : std::vector<std::string>{"error"};
  }
  std::string Error(int64_t context = 512) const { return std::string(Check(context).status().message()); }

  std::string folder_;
  RunConfig config_;
};

TEST_F(StartChecked, TheTasksHaveWhatTheirSamplingNeeds) {
  config_.scheduler.sampling.domains = {{"other", 1}};
  EXPECT_THAT(Error(), HasSubstr("scheduler.sampling.domains names 'other'"));
  config_.scheduler.sampling.domains.clear();
  config_.scheduler.sampling.order = "curriculum";
  config_.scheduler.sampling.difficulty_field = "difficulty";
  EXPECT_THAT(Error(), HasSubstr("difficulty"));
}

TEST_F(StartChecked, AGoodRunIsDescribedInOneLine) {
  config_.sft_data = File("sft.jsonl", R"({"messages": [{"role": "user", "content": "q"}]})");
  const auto check = Check();
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_EQ(DescribeCheck(*check),
            "ok: 2 tasks, 1 held-out task, 1 conversation, 1 recipe checked (its command was not run), context of 512 "
            "tokens");
  EXPECT_THAT(check->warnings, IsEmpty());
  config_.rollout.context_length = 256;
  config_.agents.recipes.clear();
  config_.trainer.optimizer.learning_rate = 1e3;
  EXPECT_EQ(DescribeCheck(*Check()),
            "ok: 2 tasks, 1 held-out task, 1 conversation, external agents, context of 256 tokens; 1 warning");
}

TEST_F(StartChecked, ExamplesFitTheModel) {
  const TextParts text = *MakeTextParts("compact");
  model::ModelConfig shape;
  shape.vocab_size = text.tokenizer->vocab_size();
  shape.max_position_embeddings = 64;
  const auto error = [&] { return std::string(ReadSupervisedExamples(config_, text, shape).status().message()); };
  const auto conversation = [](size_t bytes) {
    return R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": ")" +
           std::string(bytes, 'x') + "\"}]}";
  };
  config_.sft_data = File("sft.jsonl", conversation(10) + "\n" + conversation(10));
  ASSERT_EQ(error(), "");
  EXPECT_EQ(ReadSupervisedExamples(config_, text, shape)->sft.count, 2);
  config_.sft_data = File("sft.jsonl", conversation(10) + "\n" + conversation(100));
  EXPECT_THAT(error(), AllOf(StartsWith("data.sft: "), HasSubstr("sft.jsonl:2, message 1"),
                             HasSubstr("the context length is 64")));
  shape.max_position_embeddings = 512;
  EXPECT_EQ(error(), "");
  shape.vocab_size = 40;  // the bytes of letters are out of range
  EXPECT_THAT(error(), AllOf(StartsWith("data.sft: "), HasSubstr("outside the vocabulary of 40")));
  shape.vocab_size = text.tokenizer->vocab_size();
  config_.sft_data.clear();
  const std::string side = R"([{"role": "assistant", "content": ")" + std::string(600, 'x') + "\"}]";
  config_.dpo_data = File("dpo.jsonl", R"({"prompt": [{"role": "user", "content": "q"}], "chosen": )" + side +
                                           R"(, "rejected": [{"role": "assistant", "content": "y"}]})");
  EXPECT_THAT(error(),
              AllOf(StartsWith("data.dpo: "), HasSubstr("dpo.jsonl:1"), HasSubstr("the context length is 512")));
}

TEST_F(StartChecked, ARunOnAPartOfAHarborFolderSaysSo) {
  namespace fs = std::filesystem;
  for (const auto& [name, toml] :
       std::initializer_list<std::pair<const char*, const char*>>{{"good", ""},
                                                                  {"ill", "[environment.healthcheck]\nretries = 1\n"},
                                                                  {"slow", "[agent]\ntimeout_sec = \"soon\"\n"}}) {
    for (const char* const part : {"environment", "tests"})
      fs::create_directories(fs::path(folder_) / "h" / name / part);
    File(std::string("h/") + name + "/task.toml", toml);
    File(std::string("h/") + name + "/instruction.md", "Do it.");
    File(std::string("h/") + name + "/environment/Dockerfile", "FROM scratch");
    File(std::string("h/") + name + "/tests/test.sh", "exit 1");
  }
  config_.tasks = folder_ + "/h";
  config_.eval.tasks.clear();
  config_.scheduler.groups_per_step = 1;
  config_.agents.recipes[0].command = {"/bin/sh", "-c", "echo $1", "sh", "${task.instruction}"};
  config_.agents.recipes[0].verifier.kind = "harbor";
  const auto check = Check();
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_THAT(DescribeCheck(*check), StartsWith("ok: 1 task of 3, 1 recipe "));
  EXPECT_THAT(check->warnings,
              ElementsAre(AllOf(StartsWith("data.tasks: 1 of 3 tasks of " + config_.tasks + " can run here"),
                                HasSubstr("the first rejected task is ill: environment.healthcheck"))));
  fs::remove_all(folder_ + "/h/good");
  EXPECT_THAT(Error(), HasSubstr("none of its 2 tasks can run here"));
}

TEST_F(StartChecked, AFieldThatOnlyHeldOutTasksLackIsFound) {
  config_.eval.tasks = File("eval.jsonl", R"({"task_id": "c", "prompt": "3+3"})");
  EXPECT_THAT(Error(), AllOf(StartsWith("recipe 'adder': eval.tasks (" + config_.eval.tasks + "): "),
                             HasSubstr("verifier.expected"), HasSubstr("(task 'c'; 1 of 1 tasks)")));
}

TEST_F(StartChecked, AFieldThatATermNeedsAndTasksLackIsRejected) {
  config_.tasks = File("train.jsonl", R"({"task_id": "a", "prompt": "1+1", "answer": "2"}
{"task_id": "b", "prompt": "2+2", "answer": "4", "relevant_ids": ["x"], "domain": "search"}
)");
  reward::TermOptions& term = config_.rewards.terms.emplace_back();
  term.kind = "retrieval";
  EXPECT_THAT(Error(), AllOf(HasSubstr("rewards.terms (retrieval): 1 of 2 tasks"), HasSubstr("'relevant_ids'"),
                             HasSubstr("'a'")));
  term.domains = {"search"};
  EXPECT_THAT(Warnings(), IsEmpty());
  term.domains = {"default"};
  EXPECT_THAT(Error(), HasSubstr("1 of 2 tasks in data.tasks do not have the field 'relevant_ids'"))
      << "of the task without";
  term.domains = {"serach"};
  EXPECT_THAT(Error(), HasSubstr("rewards.terms (retrieval): domains names 'serach', but no task"));
  term = {};
  term.kind = "judge";
  EXPECT_THAT(Error(), HasSubstr("2 of 2 tasks in data.tasks do not have the field 'question' (judge.question_field)"));
  term.Of<reward::JudgeOptions>().question_field = "prompt";
  EXPECT_THAT(Warnings(), IsEmpty());
}

TEST_F(StartChecked, AKeyThatCannotBeReadIsRejected) {
  reward::TermOptions& term = config_.rewards.terms.emplace_back();
  term.kind = "judge";
  auto& judge = term.Of<reward::JudgeOptions>();
  judge.question_field = "prompt";
  judge.server.key_file = File("judge.key", "short\n");
  std::filesystem::permissions(judge.server.key_file, std::filesystem::perms::owner_all);
  EXPECT_THAT(Error(), AllOf(HasSubstr("rewards.terms (judge): judge.key_file: "), HasSubstr("16 to 4096")));
  judge.server.key_file = File("judge.key", "0123456789abcdef\n");
  EXPECT_THAT(Warnings(), IsEmpty());
  config_.gateway.models.push_back({.name = "big", .address = "", .url = "https://h/v1", .key_file = "/no/such/key"});
  EXPECT_THAT(Error(), HasSubstr("gateway.models ('big').key_file: "));
}

TEST_F(StartChecked, AProgramOrAFolderThatIsMissingIsFound) {
  config_.agents.recipes[0].command = {"/no/such/agent"};
  EXPECT_THAT(Error(), AllOf(HasSubstr("recipe 'adder': command: "), HasSubstr("/no/such/agent")));
  config_.agents.work_root = config_.tasks + "/work";
  EXPECT_THAT(Error(), HasSubstr("agents.work_root is " + config_.agents.work_root));
}

TEST_F(StartChecked, AContextThatHoldsNoConversationIsRejected) {
  EXPECT_THAT(Error(8), AllOf(HasSubstr("the context has 8 tokens (model.context_length)"), HasSubstr("raise it")));
  config_.rollout.context_length = 7;
  EXPECT_THAT(Error(), HasSubstr("the context has 7 tokens (rollout.context_length)"));
}

TEST_F(StartChecked, ATaskTextThatIsLongerThanTheContextIsWarnedOf) {
  config_.tasks = File("train.jsonl", "{\"task_id\": \"a\", \"answer\": 1, \"prompt\": \"" + std::string(300, 'x') +
                                          "\"}\n{\"task_id\": \"b\", \"answer\": 1, \"prompt\": \"" +
                                          std::string(200, 'x') + "\"}");
  EXPECT_THAT(Warnings(201), IsEmpty());
  EXPECT_THAT(Warnings(200), ElementsAre(AllOf(HasSubstr("has 200 tokens"), HasSubstr("the context has only 200"))));
}

TEST_F(StartChecked, HeldOutTasksOfEqualContentAreWarnedOfWhateverTheirIdAndOrderOfFields) {
  config_.eval.tasks = File("eval.jsonl", R"({"answer": "2",  "prompt": "1+1", "task_id": "other"}
{"task_id": "b", "prompt": "2+3", "answer": "5"})");
  EXPECT_THAT(Warnings(), ElementsAre(AllOf(HasSubstr("1 of 2 tasks of eval.tasks"), HasSubstr("'other'"))));
  // Tasks without content are told apart by their ids alone.
  config_.agents.recipes.clear();
  config_.tasks = File("train.jsonl", "{\"task_id\": \"a\"}\n{\"task_id\": \"b\"}");
  config_.eval.tasks = File("eval.jsonl", "{\"task_id\": \"c\"}\n{\"task_id\": \"b\"}");
  EXPECT_THAT(Warnings(), ElementsAre(AllOf(HasSubstr("1 of 2 tasks of eval.tasks"), HasSubstr("'b'"))));
}

TEST_F(StartChecked, VariablesThatTheTemplateDoesNotReadAreWarnedOf) {
  config_.gateway.template_variables["enable_thinking"] = false;
  EXPECT_THAT(Warnings(), ElementsAre(HasSubstr("gateway.template_variables has no effect for enable_thinking")));
}

TEST_F(StartChecked, ASupervisedRunHasNoRecipesToPreflight) {
  config_.tasks.clear();
  config_.eval.tasks.clear();
  config_.agents.work_root = "/no/such/folder";
  config_.sft_data = File("sft.jsonl", R"({"messages": [{"role": "user", "content": "q"}]})");
  EXPECT_EQ(DescribeCheck(*Check(8)), "ok: 1 conversation");
}

}  // namespace
}  // namespace ingot::app
