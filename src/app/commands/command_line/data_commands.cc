#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <vector>

#include "app/commands/command_line/command.h"
#include "app/commands/data/collect.h"
#include "app/commands/data/harbor_command.h"
#include "app/commands/data/import.h"
#include "app/commands/data/regrade.h"
#include "app/commands/data/retrain.h"
#include "app/commands/data/tasks_cases.h"
#include "app/commands/data/tasks_command.h"
#include "app/commands/data/tasks_import.h"

namespace ingot::app {
namespace {

Command::Run DeclareCollect(CLI::App& parser) {
  const auto args = std::make_shared<CollectArgs>();
  AddRunArgs(parser, args->run);
  parser.add_option("--checkpoint", args->checkpoint, "the model's folder; default: the configuration's model");
  parser.add_option("--model", args->model, "an external model of gateway.models that answers every call instead");
  parser.add_option("--script", args->script, "file with the model's answers, call by call (gateway/script.h)");
  parser.add_option("--samples", args->samples, "of each task")->capture_default_str();
  parser.add_option("--temperature", args->temperature, "of every call; 0: greedy")->capture_default_str();
  return [args] { return Collect(*args); };
}

Command::Run DeclareTasksCheck(CLI::App& parser) {
  const auto args = std::make_shared<TasksCheckArgs>();
  parser.add_option("folder", args->folder, "a folder of Harbor tasks, or one task")->required();
  parser.add_option("--store", args->store, "folder of images; default: images/ in the default agents.work_root");
  parser
      .add_option("--build-host", args->build_hosts,
                  "host that their Dockerfile steps may reach, including registries of base images; default: none")
      ->type_name("HOST:PORT");
  parser.add_flag("--only-read", args->only_read, "only list the tasks");
  parser.add_flag("--without-images", args->without_images,
                  "try them with this machine's programs and the work folder at /app, instead of their images");
  return [args] { return CheckTasks(*args, std::cout, std::cerr); };
}

Command::Run DeclareTasksImport(CLI::App& parser) {
  const auto args = std::make_shared<TasksImportArgs>();
  parser
      .add_option("source", args->source, "a .csv, .tsv, .json, .jsonl or .parquet file, or a folder of Hugging Face")
      ->required();
  parser.add_option("out", args->out, "the file to write: a task per line")->required();
  parser.add_option("--field", args->fields, "a field of the tasks; default: every column (repeatable)")
      ->type_name("FIELD[=COLUMN]")
      ->allow_extra_args(false);
  parser.add_option("--extract", args->extract, "keep what the pattern finds in a field's text (repeatable)")
      ->type_name("FIELD=PATTERN")
      ->allow_extra_args(false);
  parser.add_option("--id", args->id, "the column of task ids; default: task_id, or the row's number");
  parser.add_option("--domain", args->domain, "the domain of all tasks");
  parser.add_option("--split", args->split, "of a folder's data set; default: train");
  parser.add_option("--limit", args->limit, "the first rows alone")->check(AtLeastOne());
  parser.add_option("--python", args->python, "the Python with pyarrow or datasets; default: the active environment's");
  return [args] { return TasksImport(*args); };
}

Command::Run DeclareTasksRate(CLI::App& parser) {
  const auto args = std::make_shared<TasksRateArgs>();
  parser.add_option("run", args->run_dir, "folder of `ingot collect`, or of a training run")->required();
  parser.add_option("out", args->out, "the file to write: its tasks with their pass rate")->required();
  parser.add_option("--above", args->above, "a sample succeeded if its outcome is above it")->capture_default_str();
  parser.add_option("--field", args->field, "the field that holds the rate")->capture_default_str();
  return [args] { return TasksRate(*args); };
}

Command::Run DeclareTasksFilter(CLI::App& parser) {
  const auto args = std::make_shared<TasksFilterArgs>();
  parser.add_option("tasks", args->tasks, "the task file, JSON lines")->required();
  parser.add_option("out", args->out, "the file to write: the remaining tasks")->required();
  parser.add_option("--rated", args->rated, "run folder with tries of the tasks; default: their own pass rates");
  parser.add_option("--guesses", args->guesses, "run folder with tries without reasoning");
  parser.add_option("--guess", args->guess, "tries of --guesses that count")
      ->check(AtLeastOne())
      ->capture_default_str();
  parser.add_option("--above", args->above, "a try succeeded if its outcome is above it")->capture_default_str();
  parser.add_option("--min-rate", args->min_rate, "at or below it a task is impossible")->capture_default_str();
  parser.add_option("--max-rate", args->max_rate, "at or above it a task is trivial")->capture_default_str();
  parser.add_flag("!--any-format", args->formats, "keep multiple choice, true or false, and proofs");
  parser.add_option("--question-field", args->question_field, "the task's question")->capture_default_str();
  parser.add_option("--answer-field", args->answer_field, "the task's answer")->capture_default_str();
  parser.add_option("--rate-field", args->rate_field, "the task's own pass rate")->capture_default_str();
  return [args] { return TasksFilter(*args); };
}

Command::Run DeclareTasksCases(CLI::App& parser) {
  const auto args = std::make_shared<TasksCasesArgs>();
  parser.add_option("problems", args->problems, "JSON lines: {\"cases\": [INPUT], \"submissions\": [PROGRAM]}")
      ->required();
  parser.add_option("out", args->out, "the file to write: the remaining problems, with their tests")->required();
  parser.add_option("--agreeing", args->agreeing, "submissions that must agree on a case")->capture_default_str();
  parser.add_option("--cases", args->cases, "cases that a problem must keep")->capture_default_str();
  parser.add_option("--passing", args->passing, "submissions that must pass every kept case")->capture_default_str();
  parser.add_option("--timeout", args->timeout_s, "seconds of one submission on one case")->capture_default_str();
  parser.add_option("--threads", args->threads, "programs at a time")->check(AtLeastOne())->capture_default_str();
  parser.add_flag("--allow-process", args->allow_process,
                  "allow running the programs at the sandbox isolation level `process`");
  return [args] { return TasksCases(*args); };
}

Command::Run DeclareImport(CLI::App& parser) {
  const auto args = std::make_shared<ImportArgs>();
  // Overrides need --set because other words are files.
  parser.add_option("config", args->run.config, "the run's YAML file")->required();
  parser.add_option("--set", args->run.overrides, "override one key: --set run.name=imported (repeatable)")
      ->allow_extra_args(false);
  parser.add_option("files", args->files, "trajectories in ATIF: one JSON object a file, or JSON lines")->required();
  return [args] { return Import(*args); };
}

Command::Run DeclareRegrade(CLI::App& parser) {
  const auto args = std::make_shared<RegradeArgs>();
  parser.add_option("run", args->run_dir, "the run's folder")->required();
  AddOverrides(parser, args->overrides, "'rewards.terms=[{kind: outcome}]'");
  parser.add_flag("--json", args->json, "one JSON object");
  return [args] { return Regrade(*args); };
}

Command::Run DeclareRetrain(CLI::App& parser) {
  const auto args = std::make_shared<RetrainArgs>();
  parser.add_option("run", args->run_dir, "folder of the run whose stored batches are trained on")->required();
  AddRunArgs(parser, args->run);
  parser.add_option("--steps", args->steps, "most steps to train; default: all steps in the run's pool")
      ->check(AtLeastOne());
  parser.add_flag("--resume", args->run.resume, "continue from the last checkpoint");
  return [args] { return Retrain(*args); };
}

}  // namespace

std::vector<Command> DataCommands() {
  return {
      {.name = "collect",
       .summary = "run the agents on the training tasks, several samples each, without training",
       .declare = DeclareCollect,
       .computes = true,
       .holds_keys = true},
      {"tasks",
       "measure, filter and try tasks",
       nullptr,
       {{"check", "try Harbor tasks: the solution must score 1, and an agent that does nothing must not",
         DeclareTasksCheck},
        {"import", "make tasks of a CSV, JSON or Parquet file, or of a Hugging Face data set", DeclareTasksImport},
        {"rate", "write the tasks of a run with their measured pass rates", DeclareTasksRate},
        {"filter", "drop tasks that are trivial, impossible or easy to guess", DeclareTasksFilter},
        {"cases", "keep the test cases on which submissions agree, and the problems with enough of them",
         DeclareTasksCases}}},
      {"import", "make a pool of trajectories in ATIF, Harbor's format", DeclareImport},
      {"regrade", "score a run's stored groups again under other rewards", DeclareRegrade},
      {.name = "retrain",
       .summary = "train on a run's stored groups with another configuration, without a rollout",
       .declare = DeclareRetrain,
       .computes = true,
       .holds_keys = true,
       .logs = true},
  };
}

}  // namespace ingot::app
