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
#include "app/commands/data/tasks_generate.h"
#include "app/commands/data/tasks_import.h"

namespace ingot::app {
namespace {

Command::Run DeclareCollect(CLI::App& parser) {
  const auto args = std::make_shared<CollectArgs>();
  AddRunArgs(parser, args->run);
  parser.add_option("--checkpoint", args->checkpoint, "the model's folder; default: the configuration's model");
  parser.add_option("--model", args->model, "external model in gateway.models that answers every call instead");
  parser.add_option("--script", args->script, "file with a scripted answer for each call");
  parser.add_option("--samples", args->samples, "number of samples per task")->capture_default_str();
  parser.add_option("--temperature", args->temperature, "sampling temperature of every call; 0: greedy")
      ->capture_default_str();
  return [args] { return Collect(*args); };
}

Command::Run DeclareTasksCheck(CLI::App& parser) {
  const auto args = std::make_shared<TasksCheckArgs>();
  parser.add_option("folder", args->folder, "a folder of Harbor tasks, or one task")->required();
  parser.add_option("--store", args->store, "image folder; default: images/ in the default agents.work_root");
  parser
      .add_option("--build-host", args->build_hosts,
                  "host that Dockerfile steps may connect to, including base image registries; default: none")
      ->type_name("HOST:PORT");
  parser.add_flag("--only-read", args->only_read, "only list the tasks");
  parser.add_flag("--without-images", args->without_images,
                  "try tasks with this machine's programs and the work folder at /app, instead of their images");
  return [args] { return CheckTasks(*args, std::cout, std::cerr); };
}

Command::Run DeclareTasksImport(CLI::App& parser) {
  const auto args = std::make_shared<TasksImportArgs>();
  parser
      .add_option("source", args->source,
                  "a .csv, .tsv, .json, .jsonl, or .parquet file, or a folder with a Hugging Face data set")
      ->required();
  parser.add_option("out", args->out, "file to write, with one task per line")->required();
  parser.add_option("--field", args->fields, "field of the tasks to write; default: every column (repeatable)")
      ->type_name("FIELD[=COLUMN]")
      ->allow_extra_args(false);
  parser
      .add_option("--extract", args->extract,
                  "replace a field with the text in it that the pattern matches "
                  "(repeatable)")
      ->type_name("FIELD=PATTERN")
      ->allow_extra_args(false);
  parser.add_option("--id", args->id, "column with the task ids; default: task_id, or the row number");
  parser.add_option("--domain", args->domain, "domain of all tasks");
  parser.add_option("--split", args->split, "split of the folder's data set; default: train");
  parser.add_option("--limit", args->limit, "import only this many rows")->check(AtLeastOne());
  parser.add_option("--python", args->python,
                    "Python interpreter that has pyarrow or datasets; default: the active environment's");
  return [args] { return TasksImport(*args); };
}

Command::Run DeclareTasksGenerate(CLI::App& parser) {
  const auto args = std::make_shared<TasksGenerateArgs>();
  parser.add_option("chunks", args->source, "JSON lines of chunks: {\"id\": ID, \"text\": TEXT}")->required();
  parser.add_option("out", args->out, "file to write, with one task per line")->required();
  parser.add_option("--url", args->url, "base URL of an OpenAI-compatible server; default: OPENAI_BASE_URL");
  parser.add_option("--model", args->model, "the server's name for the model")->capture_default_str();
  parser.add_option("--key-env", args->key_env, "environment variable with the server's key")->capture_default_str();
  parser.add_option("--count", args->count, "number of tasks")->check(AtLeastOne())->capture_default_str();
  parser.add_option("--hops", args->hops, "maximum number of facts to chain")
      ->check(AtLeastOne())
      ->capture_default_str();
  parser.add_option("--min-hops", args->min_hops, "drop shorter chains")->check(AtLeastOne())->capture_default_str();
  parser.add_option("--documents", args->documents, "chunks to show for each hop")
      ->check(AtLeastOne())
      ->capture_default_str();
  parser
      .add_option("--distractors", args->distractors,
                  "similar chunks that the model classifies for each task; 0: "
                  "none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  parser.add_option("--document-characters", args->document_characters, "characters of a chunk to show")
      ->check(AtLeastOne())
      ->capture_default_str();
  parser.add_option("--concurrency", args->concurrency, "number of tasks to create in parallel")
      ->check(AtLeastOne())
      ->capture_default_str();
  parser.add_option("--tries", args->tries, "attempts per request")->check(AtLeastOne())->capture_default_str();
  parser.add_option("--timeout", args->timeout_s, "timeout for each request, in seconds")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  parser.add_option("--temperature", args->temperature, "sampling temperature")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  parser.add_option("--seed", args->seed, "seed for the order of the chunks")->capture_default_str();
  parser.add_option("--domain", args->domain, "domain of all tasks");
  parser.add_flag("!--no-schema", args->schema, "do not send the answers' JSON schema, for servers that reject it");
  parser.add_option("--python", args->python, "Python interpreter; default: the active environment's");
  return [args] { return TasksGenerate(*args); };
}

Command::Run DeclareTasksRate(CLI::App& parser) {
  const auto args = std::make_shared<TasksRateArgs>();
  parser.add_option("run", args->run_dir, "folder of an `ingot collect` run or a training run")->required();
  parser.add_option("out", args->out, "file to write, with the run's tasks and their pass rates")->required();
  parser.add_option("--above", args->above, "a sample succeeded if its outcome is above this")->capture_default_str();
  parser.add_option("--field", args->field, "field to write the pass rate to")->capture_default_str();
  return [args] { return TasksRate(*args); };
}

Command::Run DeclareTasksFilter(CLI::App& parser) {
  const auto args = std::make_shared<TasksFilterArgs>();
  parser.add_option("tasks", args->tasks, "task file, JSON lines")->required();
  parser.add_option("out", args->out, "file to write, with the remaining tasks")->required();
  parser.add_option("--rated", args->rated,
                    "run folder with attempts at the tasks; default: use the tasks' own pass rates");
  parser.add_option("--guesses", args->guesses, "run folder with attempts without reasoning");
  parser.add_option("--guess", args->guess, "number of attempts in --guesses to use per task")
      ->check(AtLeastOne())
      ->capture_default_str();
  parser.add_option("--above", args->above, "an attempt succeeded if its outcome is above this")->capture_default_str();
  parser.add_option("--min-rate", args->min_rate, "a task with at most this pass rate is impossible")
      ->capture_default_str();
  parser.add_option("--max-rate", args->max_rate, "a task with at least this pass rate is trivial")
      ->capture_default_str();
  parser.add_flag("!--any-format", args->formats, "keep multiple-choice, true-or-false, and proof tasks");
  parser.add_option("--question-field", args->question_field, "field with the task's question")->capture_default_str();
  parser.add_option("--answer-field", args->answer_field, "field with the task's answer")->capture_default_str();
  parser.add_option("--rate-field", args->rate_field, "field with the task's own pass rate")->capture_default_str();
  return [args] { return TasksFilter(*args); };
}

Command::Run DeclareTasksCases(CLI::App& parser) {
  const auto args = std::make_shared<TasksCasesArgs>();
  parser.add_option("problems", args->problems, "JSON lines: {\"cases\": [INPUT], \"submissions\": [PROGRAM]}")
      ->required();
  parser.add_option("out", args->out, "file to write, with the remaining problems and their tests")->required();
  parser.add_option("--agreeing", args->agreeing, "number of submissions that must agree on a test case")
      ->capture_default_str();
  parser.add_option("--cases", args->cases, "minimum number of test cases that a problem must keep")
      ->capture_default_str();
  parser.add_option("--passing", args->passing, "number of submissions that must pass every kept test case")
      ->capture_default_str();
  parser.add_option("--timeout", args->timeout_s, "timeout for one submission on one test case, in seconds")
      ->capture_default_str();
  parser.add_option("--threads", args->threads, "number of programs to run in parallel")
      ->check(AtLeastOne())
      ->capture_default_str();
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
  parser.add_option("files", args->files, "trajectories in ATIF, as one JSON object per file or as JSON lines")
      ->required();
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
  parser.add_option("run", args->run_dir, "folder of the run with the stored batches to train on")->required();
  AddRunArgs(parser, args->run);
  parser.add_option("--steps", args->steps, "maximum number of steps to train; default: all steps in the run's pool")
      ->check(AtLeastOne());
  parser.add_flag("--resume", args->run.resume, "continue from the last checkpoint");
  return [args] { return Retrain(*args); };
}

}  // namespace

std::vector<Command> DataCommands() {
  return {
      {.name = "collect",
       .summary = "run the agents on the training tasks, with several samples each, without training",
       .declare = DeclareCollect,
       .computes = true,
       .holds_keys = true},
      {"tasks",
       "import, generate, measure, filter, and check tasks",
       nullptr,
       {{"check", "check Harbor tasks: the solution must get reward 1, and an agent that does nothing must get 0",
         DeclareTasksCheck},
        {"import", "create tasks from a CSV, JSON, or Parquet file, or from a Hugging Face data set",
         DeclareTasksImport},
        {"generate", "create search tasks about a corpus with a model, and keep those with correct quotes and answers",
         DeclareTasksGenerate},
        {"rate", "write a run's tasks with their measured pass rates", DeclareTasksRate},
        {"filter", "drop tasks that are trivial, impossible, or easy to guess", DeclareTasksFilter},
        {"cases", "keep test cases on which submissions agree, and problems with enough such cases",
         DeclareTasksCases}}},
      {"import", "create a pool from trajectories in ATIF, Harbor's format", DeclareImport},
      {"regrade", "score a run's stored groups again with other rewards", DeclareRegrade},
      {.name = "retrain",
       .summary = "train on a run's stored groups with another configuration, without a rollout",
       .declare = DeclareRetrain,
       .computes = true,
       .holds_keys = true,
       .logs = true},
  };
}

}  // namespace ingot::app
