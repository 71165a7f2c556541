#include "agents/preflight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

namespace ingot::agents {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using testing::StartsWith;

class PreflightTest : public testing::Test {
 protected:
  PreflightTest() {
    char name[] = "/tmp/ingot-preflight-XXXXXX";
    root_ = mkdtemp(name);
    options_.work_root = root_ + "/work";
    options_.recipes.emplace_back();
    recipe().name = "a";
    recipe().command = {"/bin/sh", "-c", "echo 42"};
    AddTask("sum-1", R"({"prompt": "1+1", "answer": 2})");
  }
  ~PreflightTest() override { fs::remove_all(root_); }

  RecipeOptions& recipe() { return options_.recipes[0]; }
  void AddTask(const std::string& id, const std::string& payload) {
    tasks_.emplace_back();
    tasks_.back().set_task_id(id);
    tasks_.back().set_payload_json(payload);
  }
  absl::StatusOr<std::vector<std::string>> RunPreflight() const {
    const TaskSet set{.name = "data.tasks (t.jsonl)", .tasks = tasks_};
    return Preflight(options_, {&set, 1});
  }
  std::string Error() const {
    const auto checked = RunPreflight();
    EXPECT_FALSE(checked.ok());
    EXPECT_TRUE(!fs::exists(options_.work_root) || fs::is_empty(options_.work_root)) << "nothing stays";
    return std::string(checked.status().message());
  }
  std::vector<std::string> Warnings() const {
    const auto checked = RunPreflight();
    EXPECT_TRUE(checked.ok()) << checked.status();
    return checked.value_or(std::vector<std::string>{"error"});
  }
  std::string Program(const std::string& name, const std::string& text) const {
    const std::string path = root_ + "/" + name;
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << text;
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }

  std::string root_;
  RunnerOptions options_;
  std::vector<v1::Task> tasks_;
};

TEST_F(PreflightTest, MathWithoutItsPythonSaysWhatToSet) {
  recipe().verifier.kind = "math";
  recipe().verifier.math.python = root_ + "/.venv/bin/python";
  EXPECT_THAT(Error(), AllOf(HasSubstr("verifier.math.python: "), HasSubstr(root_ + "/.venv/bin/python"),
                             HasSubstr("pip install math-verify==0.9.0")));
}

TEST_F(PreflightTest, AGoodRecipeRunsNothingAndLeavesNothing) {
  recipe().files = {{"in/task.json", "${task}"}, {"run.sh", "#!/bin/sh\n"}};
  recipe().setup = {{{"touch", root_ + "/ran"}}};
  recipe().command = {"./run.sh"};
  recipe().cleanup = {{{"touch", root_ + "/ran"}}};
  recipe().verifier.kind = "command";
  recipe().verifier.command = {"touch", root_ + "/ran", "${task.answer}"};
  EXPECT_THAT(Warnings(), IsEmpty());
  EXPECT_FALSE(fs::exists(root_ + "/ran"));
  EXPECT_TRUE(fs::is_empty(options_.work_root));
}

TEST_F(PreflightTest, ARecipeAnswersForTasksOfItsDomainsAlone) {
  recipe().domains = {"maths"};
  tasks_[0].set_domain("maths");
  AddTask("t", R"({"prompt": "write a program"})");
  tasks_.back().set_domain("code");
  EXPECT_THAT(Error(), HasSubstr("no recipe is for the domain 'code' of task 't'"));
  options_.recipes.push_back(recipe());
  options_.recipes[1].name = "b";
  options_.recipes[1].domains = {};
  EXPECT_THAT(Error(), AllOf(StartsWith("recipe 'b': "), HasSubstr("1 of 1 tasks")));
  options_.recipes[1].verifier.expected = "x";
  EXPECT_THAT(Warnings(), IsEmpty()) << "no task of recipe 'a' lacks its answer";
}

TEST_F(PreflightTest, ATaskWithoutADomainIsOfTheDomainDefault) {
  recipe().domains = {"maths"};
  EXPECT_THAT(Error(), HasSubstr("no recipe is for the domain 'default' of task 'sum-1'"));
  recipe().domains = {"default"};
  EXPECT_THAT(Warnings(), IsEmpty());
}

TEST_F(PreflightTest, AnMcpServersProgramIsLookedFor) {
  recipe().mcp = {{.name = "notes", .command = {"/no/such/server", "${task.prompt}"}, .env = {}}};
  EXPECT_THAT(Error(), AllOf(HasSubstr("mcp 'notes'"), HasSubstr("/no/such/server")));
  recipe().mcp[0].command = {"/bin/sh", "${task.nothing}"};
  EXPECT_THAT(Error(), AllOf(HasSubstr("mcp 'notes'"), HasSubstr("${task.nothing}")));
  recipe().mcp[0].command = {"/bin/sh"};
  recipe().files = {{"mcp.json", "${mcp.servers} ${mcp.opencode} ${json:mcp.codex}"}};
  EXPECT_THAT(Warnings(), IsEmpty());
}

TEST_F(PreflightTest, AFieldThatAnyTaskLacksIsNamedWithItsKeyAndTheNumberOfTasks) {
  AddTask("sum-2", R"({"prompt": "2+2"})");
  AddTask("sum-3", R"({"prompt": "3+3"})");
  EXPECT_THAT(Error(),
              AllOf(StartsWith("recipe 'a': data.tasks (t.jsonl): verifier.expected: "), HasSubstr("${task.answer}"),
                    HasSubstr("its fields are prompt"), HasSubstr("(task 'sum-2'; 2 of 3 tasks)")));
  recipe().verifier.expected = "2";
  EXPECT_THAT(Warnings(), IsEmpty());
  const std::vector<std::pair<std::string, std::function<void(RecipeOptions&)>>> places = {
      {"env.Q: ", [](RecipeOptions& r) { r.env = {{"Q", "${task.question}"}}; }},
      {"files.task.json: ", [](RecipeOptions& r) { r.files = {{"task.json", "{\"q\": ${json:task.question}}"}}; }},
      {"command: ", [](RecipeOptions& r) { r.command.push_back("${task.question.0}"); }},
      {"setup[1]: ", [](RecipeOptions& r) { r.setup = {{{"true"}}, {{"echo", "${task.question}"}}}; }},
      {"cleanup[0]: ", [](RecipeOptions& r) { r.cleanup = {{{"echo", "${task.question}"}}}; }},
      {"verifier.expected: ", [](RecipeOptions& r) { r.verifier.expected = "${task.question}"; }},
      {"verifier.pattern: ",
       [](RecipeOptions& r) { r.verifier.kind = "regex", r.verifier.pattern = "${task.question}"; }},
      {"verifier.command: ",
       [](RecipeOptions& r) { r.verifier.kind = "command", r.verifier.command = {"true", "${task.question}"}; }},
  };
  const RecipeOptions sound = recipe();
  for (const auto& [key, change] : places) {
    recipe() = sound;
    change(recipe());
    EXPECT_THAT(Error(), AllOf(HasSubstr(key), HasSubstr("${task.question"), HasSubstr("3 of 3 tasks"))) << key;
  }
}

TEST_F(PreflightTest, AnExpectedAnswerThatNothingEqualsIsFound) {
  recipe().verifier.kind = "numeric";
  EXPECT_THAT(Warnings(), IsEmpty());
  AddTask("sum-2", R"({"prompt": "", "answer": "two"})");
  EXPECT_THAT(Error(),
              AllOf(HasSubstr("verifier.expected is 'two', which is not a number"), HasSubstr("'sum-2'; 1 of 2")));
  recipe().verifier.kind = "regex";
  recipe().verifier.pattern = "${task.answer}(";
  EXPECT_THAT(Error(), HasSubstr("does not compile"));
}

TEST_F(PreflightTest, PayloadsThatAreNoObjectsAreFound) {
  AddTask("list", "[1]");
  EXPECT_THAT(Error(), AllOf(HasSubstr("not a JSON object"), HasSubstr("'list'; 1 of 2")));
}

TEST_F(PreflightTest, AWorkRootThatCannotBeMadeIsNamed) {
  std::ofstream(root_ + "/file") << "no folder";
  options_.work_root = root_ + "/file/work";
  EXPECT_THAT(Error(), AllOf(StartsWith("agents.work_root is " + root_ + "/file/work"), HasSubstr("Not a directory")));
}

TEST_F(PreflightTest, AProgramThatIsNotThereIsNamedWithItsKey) {
  const std::vector<std::pair<std::string, std::function<void(RecipeOptions&)>>> places = {
      {"command", [](RecipeOptions& r) { r.command = {"no-such-agent"}; }},
      {"command", [](RecipeOptions& r) { r.command = {"/none/no-such-agent"}; }},
      {"command", [](RecipeOptions& r) { r.command = {"./no-such-agent"}; }},
      {"setup[0]", [](RecipeOptions& r) { r.setup = {{{"no-such-agent"}}}; }},
      {"cleanup[0]", [](RecipeOptions& r) { r.cleanup = {{{"no-such-agent"}}}; }},
      {"verifier.command",
       [](RecipeOptions& r) { r.verifier.kind = "command", r.verifier.command = {"no-such-agent"}; }},
  };
  const RecipeOptions sound = recipe();
  for (const auto& [key, change] : places) {
    recipe() = sound;
    change(recipe());
    EXPECT_THAT(Error(), AllOf(StartsWith("recipe 'a': " + key + ": "), HasSubstr("no-such-agent")));
  }
}

TEST_F(PreflightTest, AProgramIsLookedUpInTheRecipesOwnPath) {
  Program("bin/my-agent", "#!/bin/sh\n");
  recipe().command = {"my-agent"};
  EXPECT_THAT(Error(), HasSubstr("no executable 'my-agent' in PATH="));
  recipe().env = {{"PATH", root_ + "/bin:/usr/bin"}};
  EXPECT_THAT(Warnings(), IsEmpty());
  recipe().command = {"${cwd}/no-such-agent"};
  EXPECT_THAT(Error(), HasSubstr(fs::current_path().string() + "/no-such-agent"));
  // Of the recipe's own files.
  recipe().command = {"my-tool"};
  recipe().env = {{"PATH", "${workdir}/tools"}};
  recipe().files = {{"tools/my-tool", "#!/bin/sh\n"}};
  EXPECT_THAT(Warnings(), IsEmpty());
  recipe().env = {{"PATH", "tools"}};
  EXPECT_THAT(Warnings(), IsEmpty()) << "from ${workdir}, where the agent runs";
}

TEST_F(PreflightTest, AFileThatCannotRunIsNamed) {
  const std::string text = Program("notes", "plain");
  fs::permissions(text, fs::perms::owner_read);
  recipe().command = {text};
  EXPECT_THAT(Error(), HasSubstr("is not an executable file"));
  recipe().command = {root_};
  EXPECT_THAT(Error(), HasSubstr("is not an executable file"));
  recipe().command = {Program("script", "#!/no/such/python3 -u\n")};
  EXPECT_THAT(Error(), AllOf(HasSubstr("is a script for '/no/such/python3'"), HasSubstr("does not exist")));
  recipe().command = {Program("script2", "#!/usr/bin/env -S A=1 no-such-python\n")};
  EXPECT_THAT(Error(), HasSubstr("is a script for 'no-such-python'"));
  recipe().command = {Program("script3", "#!")};
  EXPECT_THAT(Warnings(), IsEmpty());
}

TEST_F(PreflightTest, TheScriptOfAnInterpreterIsLookedFor) {
  const auto run = [&](const std::vector<std::string>& rest) {
    recipe().command = {"/bin/sh", "-u"};
    recipe().command.insert(recipe().command.end(), rest.begin(), rest.end());
  };
  run({"${cwd}/no/agent.py", "task.json"});
  EXPECT_THAT(Error(), AllOf(HasSubstr("recipe 'a': command: cannot find '"), HasSubstr("/no/agent.py' for /bin/sh")));
  run({"agent.py"});
  EXPECT_THAT(Error(), HasSubstr("relative paths begin in ${workdir}"));
  recipe().files = {{"agent.py", "print(42)"}};
  EXPECT_THAT(Warnings(), IsEmpty());
  for (const std::vector<std::string>& fine :
       {std::vector<std::string>{"-c", "echo x.py"}, {"-m", "agent.py"}, {"plain-word", "x.py"}, {}}) {
    run(fine);
    EXPECT_THAT(Warnings(), IsEmpty()) << testing::PrintToString(fine);
  }
}

TEST_F(PreflightTest, ProgramsThatSetUpOrTheAgentMayMakeAreNotRejected) {
  recipe().command = {"./made", "x"};
  recipe().setup = {{{"cp", "/bin/true", "made"}}};
  EXPECT_THAT(Warnings(), IsEmpty());
  recipe().command = {"${workdir}/venv/bin/python", "agent.py"};
  EXPECT_THAT(Warnings(), IsEmpty());
  recipe().command = {"/opt/no-such/agent"};
  EXPECT_THAT(Warnings(), ElementsAre(AllOf(StartsWith("recipe 'a': command: "), HasSubstr("/opt/no-such/agent"),
                                            HasSubstr("unless an earlier command in the recipe creates it"))));
  recipe().command = {"true"};
  recipe().setup.clear();
  recipe().verifier.kind = "command";
  recipe().verifier.command = {"./built-by-the-agent"};
  EXPECT_THAT(Warnings(), IsEmpty());
  recipe().verifier.command = {"sh", "test.sh"};
  EXPECT_THAT(Warnings(), IsEmpty());
}

TEST_F(PreflightTest, AFileOutsideTheWorkFolderIsRejected) {
  recipe().files = {{"../escape", "x"}};
  EXPECT_THAT(Error(), AllOf(HasSubstr("'../escape'"), HasSubstr("work folder")));
}

TEST_F(PreflightTest, EveryRecipeIsPreflightedAndWithoutOneNothingIsMade) {
  options_.recipes.push_back(recipe());
  options_.recipes[1].name = "b";
  options_.recipes[1].command = {"/no/such-agent"};
  EXPECT_THAT(Error(), StartsWith("recipe 'b': command: "));
  options_.recipes.clear();
  options_.work_root = root_ + "/unused";
  EXPECT_THAT(Warnings(), IsEmpty());
  EXPECT_FALSE(fs::exists(options_.work_root));
}

TEST_F(PreflightTest, TheShownTextIsTheLongestStringThatTheRecipeNames) {
  v1::Task task;
  task.set_payload_json(R"({"prompt": "What is 1+1?", "hint": "longer than the prompt is", "tables": {"a": "x"}})");
  recipe().files = {{"task.json", R"({"p": ${json:task.prompt}, "t": ${task.tables}})"}};
  EXPECT_EQ(ShownText(recipe(), task), "What is 1+1?");
  recipe().env = {{"HINT", "${task.hint}"}};
  EXPECT_EQ(ShownText(recipe(), task), "longer than the prompt is");
  recipe().env.clear();
  recipe().files.clear();
  EXPECT_EQ(ShownText(recipe(), task), "");
  task.set_payload_json("{");
  EXPECT_EQ(ShownText(recipe(), task), "");
}

}  // namespace
}  // namespace ingot::agents
