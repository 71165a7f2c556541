#include "app/commands/data/tasks_generate.h"

#include <vector>

#include "app/commands/data/python_program.h"
#include "base/file.h"
#include "base/json.h"
#include "dataset/tasks.h"

namespace ingot::app {
namespace {

std::string OptionsJson(const TasksGenerateArgs& args) {
  return base::PrintJson(base::json::object{{"source", args.source},
                                            {"out", args.out},
                                            {"url", args.url},
                                            {"model", args.model},
                                            {"key_env", args.key_env},
                                            {"count", args.count},
                                            {"hops", args.hops},
                                            {"min_hops", args.min_hops},
                                            {"documents", args.documents},
                                            {"distractors", args.distractors},
                                            {"document_characters", args.document_characters},
                                            {"concurrency", args.concurrency},
                                            {"tries", args.tries},
                                            {"timeout", args.timeout_s},
                                            {"temperature", args.temperature},
                                            {"seed", args.seed},
                                            {"domain", args.domain},
                                            {"schema", args.schema}});
}

absl::Status Generate(const TasksGenerateArgs& args, size_t& tasks) {
  if (args.min_hops > args.hops) {
    return absl::InvalidArgumentError(
        absl::StrCat("--min-hops is ", args.min_hops, ", but --hops is ", args.hops, ": it must be at most --hops"));
  }
  return base::ReplaceFileBy(args.out, [&](int fd, const std::string& draft) -> absl::Status {
    INGOT_RETURN_IF_ERROR(RunPythonProgram(args.python, kTasksGenerate, OptionsJson(args), fd));
    INGOT_ASSIGN_OR_RETURN(const std::vector<v1::Task> read, dataset::LoadTasks(draft));
    tasks = read.size();
    return absl::OkStatus();
  });
}

}  // namespace

int TasksGenerate(const TasksGenerateArgs& args) {
  size_t tasks = 0;
  const absl::Status generated = Generate(args, tasks);
  return ReportTasks(generated, tasks, args.out);
}

}  // namespace ingot::app
