#include "agents/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>

#include "agents/episode_run.h"

namespace ingot::agents {
namespace {

using testing::HasSubstr;

RunnerOptions Good() {
  RunnerOptions options;
  options.recipes.emplace_back();
  options.recipes[0].name = "agent";
  options.recipes[0].command = {"python3", "${cwd}/agent.py", "${task.text}"};
  return options;
}

TEST(AgentOptionsTest, AGoodRecipeIsAccepted) {
  RunnerOptions options = Good();
  RecipeOptions& recipe = options.recipes[0];
  recipe.env = {{"TABLE", "${task.table}"}, {"URL", "${base_url}"}, {"KEY", "${api_key}"}};
  recipe.files = {{"tools.json", "{\"task\": ${task}, \"id\": \"${task_id}\"}"}};
  recipe.setup = {{{"sh", "-c", "echo $HOME > ${home}/x"}}};
  recipe.cleanup = {{{"rm", "-rf", "${workdir}/${episode_id}"}}};
  EXPECT_TRUE(options.Validate().ok()) << options.Validate();
}

TEST(AgentOptionsTest, EachUserHasAWorkRootOfTheirOwn) {
  EXPECT_EQ(RunnerOptions().work_root, absl::StrCat("/tmp/ingot-work-", ::geteuid()));
}

TEST(AgentOptionsTest, EachMistakeIsNamed) {
  const std::vector<std::pair<std::function<void(RunnerOptions&)>, std::vector<std::string>>> cases = {
      {[](auto& o) { o.concurrency = 0; }, {"concurrency is 0"}},
      {[](auto& o) { o.recipes.push_back(o.recipes[0]); }, {"two recipes named 'agent'"}},
      {[](auto& o) { o.work_root = ""; }, {"work_root is empty"}},
      {[](auto& o) { o.backoff_initial_s = 5; }, {"backoff_max_s"}},
      {[](auto& o) { o.stop_timeout_s = 0; }, {"stop_timeout_s"}},
      {[](auto& o) { o.recipes[0].command.clear(); }, {"recipe 'agent'", "command is empty"}},
      {[](auto& o) { o.recipes[0].command[1] = "${tsak.text}"; },
       {"recipe 'agent'", "command", "${tsak.text}", "${task.FIELD}", "${base_url}"}},
      {[](auto& o) { o.recipes[0].env["A"] = "${x}"; }, {"env.A", "${x}"}},
      {[](auto& o) { o.recipes[0].files["f"] = "${x"; }, {"files.f"}},
      {[](auto& o) { o.recipes[0].setup.emplace_back(); }, {"setup[0] is empty"}},
      {[](auto& o) { o.recipes[0].cleanup.push_back({{"a", "${b}"}}); }, {"cleanup[0]", "${b}"}},
      {[](auto& o) { o.recipes[0].timeout_s = 0; }, {"timeout_s"}},
      {[](auto& o) { o.recipes[0].max_output_bytes = 0; }, {"max_output_bytes"}},
      {[](auto& o) { o.recipes[0].memory_limit_bytes = -1; }, {"memory_limit_bytes"}},
      {[](auto& o) { o.recipes[0].weight = 0; }, {"weight"}},
      {[](auto& o) { o.recipes[0].work_at = "/etc"; }, {"work_at", "/app"}},
      {[](auto& o) { o.recipes[0].domains = {"a", "b", "a"}; }, {"domains", "twice"}},
      {[](auto& o) { o.recipes[0].mcp = {{.name = "a b", .command = {"x"}, .env = {}}}; }, {"mcp 'a b'", "letters"}},
      {[](auto& o) { o.recipes[0].mcp = {{.name = "a", .command = {}, .env = {}}}; },
       {"mcp 'a'", "set a command, a url, or both"}},
      {[](auto& o) {
         o.recipes[0].mcp = {{.name = "a", .command = {"x"}, .env = {}}, {.name = "a", .command = {"x"}, .env = {}}};
       },
       {"mcp 'a' is declared twice"}},
      {[](auto& o) { o.recipes[0].mcp = {{.name = "a", .command = {"${mcp.servers}"}, .env = {}}}; },
       {"mcp 'a': command", "${mcp.servers}"}},
      {[](auto& o) { o.recipes[0].on_flood = "ignore"; }, {"on_flood", "verify"}},
      {[](auto& o) { o.recipes[0].answer_from = "stderr"; }, {"answer_from"}},
      {[](auto& o) { o.recipes[0].answer_from = "file"; }, {"answer_file"}},
      {[](auto& o) { o.recipes[0].verifier.kind = "exactly"; }, {"verifier.kind", "exactly"}},
      {[](auto& o) { o.recipes[0].verifier.expected = "${base_url}"; }, {"verifier.expected", "${base_url}"}},
  };
  for (const auto& [spoil, expected] : cases) {
    RunnerOptions options = Good();
    spoil(options);
    const absl::Status status = options.Validate();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    for (const std::string& part : expected) EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

TEST(AgentTextTest, TheAnswerIsTheLastLineThatIsNotBlank) {
  EXPECT_EQ(LastLine("thinking\n 42 \n\n  \n"), "42");
  EXPECT_EQ(LastLine("42"), "42");
  EXPECT_EQ(LastLine(" \n\t\r\n"), std::nullopt);
  EXPECT_EQ(LastLine(""), std::nullopt);
}

}  // namespace
}  // namespace ingot::agents
