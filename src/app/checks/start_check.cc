#include "app/checks/start_check.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "agents/preflight.h"
#include "app/checks/data_files.h"
#include "app/terminal/progress.h"
#include "base/checksum.h"
#include "base/json.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/task_domain.h"
#include "reward/task_field.h"
#include "reward/terms/judge.h"
#include "reward/terms/parl.h"
#include "reward/terms/retrieval.h"
#include "scheduler/task_sampler.h"

namespace ingot::app {
namespace {

// Returns a key for a task's content: its fields except the id, regardless of order and whitespace.
std::string ContentOf(const v1::Task& task) {
  const auto parsed = base::ParseJson(task.payload_json());
  if (!parsed.ok() || !parsed->is_object()) return base::ContentKey(task.payload_json());
  std::map<std::string, std::string> fields;
  for (const auto& [name, value] : parsed->get_object()) {
    if (name != "task_id") fields[std::string(name)] = base::PrintJson(value);
  }
  if (fields.empty()) return base::ContentKey(task.payload_json());  // it has only an id
  std::string content;
  for (const auto& [name, value] : fields) absl::StrAppend(&content, name, "\n", value, "\n");
  return base::ContentKey(content);
}

void CountShared(const RunData& data, DataFacts& facts) {
  if (data.eval_tasks.tasks.empty()) return;
  std::set<std::string> trained;
  for (const v1::Task& task : data.tasks.tasks) trained.insert(ContentOf(task));
  for (const v1::Task& task : data.eval_tasks.tasks) {
    if (!trained.contains(ContentOf(task))) continue;
    if (facts.shared++ == 0) facts.shared_id = task.task_id();
  }
}

// Returns the token count of the prompt with the fewest bytes that a recipe shows its agent; 0 = some task shows none.
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

// Returns INVALID_ARGUMENT if even the shortest conversation does not fit.
absl::Status CheckContext(const RunConfig& config, const TextParts& text, int64_t context) {
  text::Conversation conversation;
  conversation.messages.emplace_back();
  conversation.messages[0].role = "user";
  conversation.messages[0].content = "1";
  conversation.template_variables = config.gateway.template_variables;
  const auto rendered = text.format->Render(conversation, /*add_generation_prompt=*/true);
  if (!rendered.ok()) return absl::OkStatus();  // the template needs more than a user message
  const auto shortest = static_cast<int64_t>(rendered->ids.size());
  if (shortest < context) return absl::OkStatus();
  const char* key = config.rollout.context_length > 0 ? "rollout.context_length" : "model.context_length";
  return absl::InvalidArgumentError(
      fmt::format("the context has {} tokens ({}), but the shortest conversation's prompt has {}, so every call would "
                  "be rejected; raise it",
                  context, key, shortest));
}

// Returns the task fields that the term needs, with the keys that name them. Without these fields, the term fails its
// group.
std::vector<std::pair<std::string, std::string>> FieldsOf(const reward::TermOptions& term) {
  if (term.kind == "judge") {
    const auto& judge = term.Of<reward::JudgeOptions>();
    return {{"judge.question_field", judge.question_field}, {"judge.reference_field", judge.reference_field}};
  }
  if (term.kind == "retrieval") {
    return {{"retrieval.relevant_field", term.Of<reward::RetrievalOptions>().relevant_field}};
  }
  const auto& steps = term.Of<reward::CriticalStepsOptions>();
  if (term.kind == "critical_steps" && steps.budget == 0) return {{"critical_steps.field", steps.field}};
  return {};
}

// Returns INVALID_ARGUMENT if a term is limited to a domain without tasks, or if it needs a field that some of its
// tasks lack, because all of those tasks' groups would fail.
absl::Status CheckTermsOfTasks(const RunConfig& config, const std::vector<v1::Task>& tasks) {
  for (const reward::TermOptions& term : config.rewards.terms) {
    for (const std::string& domain : term.domains) {
      if (std::ranges::any_of(tasks, [&](const v1::Task& task) { return base::DomainOf(task.domain()) == domain; }))
        continue;
      return absl::InvalidArgumentError(fmt::format(
          "rewards.terms ({}): domains names '{}', but no task in data.tasks has this domain: correct or remove it",
          term.Name(), domain));
    }
    for (const auto& [key, field] : FieldsOf(term)) {
      if (field.empty()) continue;
      int64_t lacking = 0;
      std::string first;
      for (const v1::Task& task : tasks) {
        if (!term.domains.empty() && std::ranges::count(term.domains, base::DomainOf(task.domain())) == 0) continue;
        INGOT_ASSIGN_OR_RETURN(const auto value, reward::TaskField(task, field));
        if (value.has_value()) continue;
        if (lacking++ == 0) first = task.task_id();
      }
      if (lacking == 0) continue;
      return absl::InvalidArgumentError(
          fmt::format("rewards.terms ({}): {} of {} tasks in data.tasks do not have the field '{}' ({}), such as '{}', "
                      "so their groups would fail: name another field, or limit the term to other domains",
                      term.Name(), lacking, tasks.size(), field, key, first));
    }
  }
  return absl::OkStatus();
}

// Returns INVALID_ARGUMENT if a judge's or vendor's key cannot be read, because the run would fail halfway.
absl::Status CheckKeys(const RunConfig& config) {
  for (const reward::TermOptions& term : config.rewards.terms) {
    const std::string& file = term.Of<reward::JudgeOptions>().server.key_file;
    if (term.kind != "judge" || file.empty()) continue;
    INGOT_RETURN_IF_ERROR(base::Annotate(base::ReadSecret(file).status(),
                                         absl::StrCat("rewards.terms (", term.Name(), "): judge.key_file")));
  }
  for (const gateway::ModelOptions& model : config.gateway.models) {
    if (model.key_file.empty()) continue;
    INGOT_RETURN_IF_ERROR(base::Annotate(base::ReadSecret(model.key_file).status(),
                                         absl::StrCat("gateway.models ('", model.name, "').key_file")));
  }
  return absl::OkStatus();
}

// Returns a warning about variables that do not affect the prompt; empty = the chat format uses all of them.
std::string UnreadVariables(const RunConfig& config, const text::ChatFormat& format) {
  std::vector<std::string> unread;
  for (const auto& variable : config.gateway.template_variables) {
    std::string name(variable.key());
    if (!format.ReadsVariable(name)) unread.push_back(std::move(name));
  }
  if (unread.empty()) return "";
  return absl::StrCat("gateway.template_variables has no effect for ", absl::StrJoin(unread, ", "),
                      ": the chat template does not use them; its variables are in the model's chat_template.jinja");
}

std::string Count(int64_t number, const std::string& one) {
  return fmt::format("{} {}{}", number, one, number == 1 ? "" : "s");
}

}  // namespace

absl::StatusOr<StartCheck> CheckStart(const RunConfig& config, const TextParts& text, int64_t model_context) {
  const Underway checking("checking tasks and recipes");
  StartCheck check;
  INGOT_RETURN_IF_ERROR(CheckKeys(config));
  INGOT_ASSIGN_OR_RETURN(const RunData data, ReadDataFiles(config));
  check.conversations = data.conversations;
  check.pairs = data.pairs;
  check.data.tasks = std::ssize(data.tasks.tasks);
  check.data.eval_tasks = std::ssize(data.eval_tasks.tasks);
  check.data.left_out = data.tasks.rejected;
  check.data.eval_left_out = data.eval_tasks.rejected;
  if (!config.tasks.empty()) {
    check.recipes = std::ssize(config.agents.recipes);
    check.data.context = config.rollout.context_length > 0
                             ? std::min<int64_t>(config.rollout.context_length, model_context)
                             : model_context;
    INGOT_RETURN_IF_ERROR(CheckContext(config, text, check.data.context));
    std::vector<agents::TaskSet> sets;
    // `ingot eval` starts no training episodes, and its recipes may not fit the training tasks.
    if (config.scheduler.total_steps > 0 || !config.eval.has_tasks()) {
      sets.push_back({absl::StrCat("data.tasks (", absl::StrJoin(config.task_files(), ", "), ")"), data.tasks.tasks});
    }
    sets.push_back({absl::StrCat("eval.tasks (", PathsOf(config.eval), ")"), data.eval_tasks.tasks});
    INGOT_ASSIGN_OR_RETURN(check.warnings, agents::Preflight(config.agents, sets));
    INGOT_RETURN_IF_ERROR(CheckTermsOfTasks(config, data.tasks.tasks));
    const auto sampler = scheduler::TaskSampler::Make(data.tasks.tasks, config.scheduler.sampling, config.seed);
    INGOT_RETURN_IF_ERROR(sampler.status());
    check.data.shown_tokens = ShownTokens(config, data.tasks.tasks, *text.tokenizer);
    CountShared(data, check.data);
  }
  for (const auto& [key, source] : {std::pair("data.tasks", &data.tasks), {"eval.tasks", &data.eval_tasks}}) {
    if (!source->remark.empty()) check.warnings.push_back(absl::StrCat(key, ": ", source->remark));
  }
  if (!config.model.path.empty()) {
    const auto shape = model::ModelConfig::FromFile(config.model.path + "/config.json");
    if (shape.ok()) check.data.parameters = shape->ParameterCount();
  }
  if (std::string warning = UnreadVariables(config, *text.format); !warning.empty()) check.warnings.push_back(warning);
  for (std::string& warning : StartWarnings(config, check.data)) check.warnings.push_back(std::move(warning));
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
  const auto tasks = [](int64_t number, int64_t left_out, const char* one) {
    return Count(number, one) + (left_out > 0 ? fmt::format(" of {}", number + left_out) : "");
  };
  if (check.data.tasks > 0) parts.push_back(tasks(check.data.tasks, check.data.left_out, "task"));
  if (check.data.eval_tasks > 0)
    parts.push_back(tasks(check.data.eval_tasks, check.data.eval_left_out, "held-out task"));
  if (check.conversations > 0) parts.push_back(Count(check.conversations, "conversation"));
  if (check.pairs > 0) parts.push_back(Count(check.pairs, "preference pair"));
  if (check.data.tasks > 0) {
    const char* unrun = check.recipes == 1 ? " checked (its command was not run)" : " checked (no command was run)";
    parts.push_back(check.recipes > 0 ? Count(check.recipes, "recipe") + unrun : "external agents");
  }
  if (check.data.context > 0) parts.push_back(fmt::format("context of {} tokens", check.data.context));
  return absl::StrCat("ok: ", absl::StrJoin(parts, ", "), check.warnings.empty() ? "" : "; ",
                      check.warnings.empty() ? "" : Count(std::ssize(check.warnings), "warning"));
}

}  // namespace ingot::app
