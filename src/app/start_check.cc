#include "app/start_check.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "agents/rehearsal.h"
#include "app/data_files.h"
#include "base/checksum.h"
#include "base/json.h"
#include "base/log.h"

namespace ingot::app {
namespace {

// The key of a task's content: its fields without the id, whatever their order and white space.
std::string ContentOf(const v1::Task& task) {
  const auto parsed = base::ParseJson(task.payload_json());
  if (!parsed.ok() || !parsed->is_object()) return base::ContentKey(task.payload_json());
  std::map<std::string, std::string> fields;
  for (const auto& [name, value] : parsed->get_object()) {
    if (name != "task_id") fields[std::string(name)] = base::PrintJson(value);
  }
  if (fields.empty()) return base::ContentKey(task.payload_json());  // its id is all that it has
  std::string content;
  for (const auto& [name, value] : fields) absl::StrAppend(&content, name, "\n", value, "\n");
  return base::ContentKey(content);
}

void CountShared(const RunData& data, DataFacts& facts) {
  if (data.eval_tasks.empty()) return;
  std::set<std::string> trained;
  for (const v1::Task& task : data.tasks) trained.insert(ContentOf(task));
  for (const v1::Task& task : data.eval_tasks) {
    if (!trained.contains(ContentOf(task))) continue;
    if (facts.shared++ == 0) facts.shared_id = task.task_id();
  }
}

// The shortest text that a recipe shows its agent, by bytes, in tokens; 0 = a task shows none.
int64_t ShownTokens(const RunConfig& config, const std::vector<v1::Task>& tasks, const text::Tokenizer& tokenizer) {
  std::string shortest;
  size_t bytes = std::numeric_limits<size_t>::max();
  for (const v1::Task& task : tasks) {
    for (const agents::RecipeOptions& recipe : config.agents.recipes) {
      std::string shown = agents::ShownText(recipe, task);
      if (shown.size() >= bytes) continue;
      bytes = shown.size();
      shortest = std::move(shown);
    }
    if (bytes == 0) return 0;
  }
  return tasks.empty() ? 0 : static_cast<int64_t>(tokenizer.Encode(shortest, /*allow_special=*/false).size());
}

// INVALID_ARGUMENT: not even the shortest conversation fits.
absl::Status CheckContext(const RunConfig& config, const TextParts& text, int64_t context) {
  text::Conversation conversation;
  conversation.messages.emplace_back();
  conversation.messages[0].role = "user";
  conversation.messages[0].content = "1";
  const auto rendered = text.format->Render(conversation, /*add_generation_prompt=*/true);
  if (!rendered.ok()) return absl::OkStatus();  // the template wants more than a user's message
  const auto shortest = static_cast<int64_t>(rendered->ids.size());
  if (shortest < context) return absl::OkStatus();
  const char* key = config.rollout.context_length > 0 ? "rollout.context_length" : "model.context_length";
  return absl::InvalidArgumentError(
      fmt::format("the context has {} tokens ({}), and the prompt of the shortest conversation has {}: every call "
                  "would be refused; "
                  "raise it",
                  context, key, shortest));
}

std::string Count(int64_t number, const std::string& one) {
  return fmt::format("{} {}{}", number, one, number == 1 ? "" : "s");
}

}  // namespace

absl::StatusOr<StartCheck> CheckStart(const RunConfig& config, const TextParts& text, int64_t model_context) {
  StartCheck check;
  INGOT_ASSIGN_OR_RETURN(const RunData data, ReadDataFiles(config));
  check.conversations = data.conversations;
  check.pairs = data.pairs;
  check.data.tasks = std::ssize(data.tasks);
  check.data.eval_tasks = std::ssize(data.eval_tasks);
  if (!config.tasks.empty()) {
    check.recipes = std::ssize(config.agents.recipes);
    check.data.context = config.rollout.context_length > 0
                             ? std::min<int64_t>(config.rollout.context_length, model_context)
                             : model_context;
    INGOT_RETURN_IF_ERROR(CheckContext(config, text, check.data.context));
    const agents::TaskSet sets[] = {{absl::StrCat("data.tasks (", config.tasks, ")"), data.tasks},
                                    {absl::StrCat("eval.tasks (", config.eval.tasks, ")"), data.eval_tasks}};
    INGOT_ASSIGN_OR_RETURN(check.doubts, agents::Rehearse(config.agents, sets));
    check.data.shown_tokens = ShownTokens(config, data.tasks, *text.tokenizer);
    CountShared(data, check.data);
  }
  for (std::string& doubt : StartDoubts(config, check.data)) check.doubts.push_back(std::move(doubt));
  return check;
}

absl::Status CheckRunPool(const RunConfig& config, bool resume) {
  if (config.tasks.empty()) return absl::OkStatus();  // supervised training has no pool
  datapool::StoreOptions options = config.datapool;
  if (resume) options.postgres.replace = false;
  return base::Annotate(datapool::CheckPool(options), "datapool.postgres");
}

std::string DescribeCheck(const StartCheck& check) {
  std::vector<std::string> parts;
  if (check.data.tasks > 0) parts.push_back(Count(check.data.tasks, "task"));
  if (check.data.eval_tasks > 0) parts.push_back(Count(check.data.eval_tasks, "held-out task"));
  if (check.conversations > 0) parts.push_back(Count(check.conversations, "conversation"));
  if (check.pairs > 0) parts.push_back(Count(check.pairs, "preference pair"));
  if (check.data.tasks > 0) {
    parts.push_back(check.recipes > 0 ? Count(check.recipes, "recipe") + " rehearsed" : "agents from elsewhere");
  }
  if (check.data.context > 0) parts.push_back(fmt::format("context of {} tokens", check.data.context));
  return absl::StrCat("ok: ", absl::StrJoin(parts, ", "), check.doubts.empty() ? "" : "; ",
                      check.doubts.empty() ? "" : Count(std::ssize(check.doubts), "doubt"));
}

}  // namespace ingot::app
