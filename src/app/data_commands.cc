#include "app/data_commands.h"

#include <memory>
#include <string>
#include <vector>

namespace ingot::app {

void AddRunArgs(CLI::App& parser, RunArgs& args) {
  const auto check = [](const std::string& word) {
    return word.find('=') == std::string::npos ? "'" + word + "' is one argument too many: KEY=VALUE is expected" : "";
  };
  parser.add_option("config", args.config, "the run's YAML file")->required();
  parser.add_option("--set", args.overrides, "override one key: --set trainer.learning_rate=1e-3 (repeatable)")
      ->allow_extra_args(false)
      ->check(check);
  // Parsed after --set, whose words it keeps.
  parser
      .add_option_function<std::vector<std::string>>(
          "overrides",
          [&args](const std::vector<std::string>& words) {
            args.overrides.insert(args.overrides.end(), words.begin(), words.end());
          },
          "override keys: trainer.learning_rate=1e-3 run.seed=2")
      ->check(check);
}

std::function<int()> DeclareRegrade(CLI::App& parser) {
  const auto args = std::make_shared<RegradeArgs>();
  parser.add_option("run", args->run_dir, "the run's folder")->required();
  parser.add_option("--set", args->overrides, "override one key: --set 'rewards.terms=[{kind: outcome}]' (repeatable)")
      ->allow_extra_args(false);
  parser.add_flag("--json", args->json, "one JSON object");
  return [args] { return Regrade(*args); };
}

std::function<int()> DeclareCollect(CLI::App& parser) {
  const auto args = std::make_shared<CollectArgs>();
  AddRunArgs(parser, args->run);
  parser.add_option("--checkpoint", args->checkpoint, "the model's folder; default: the configuration's model");
  parser.add_option("--model", args->model, "an external model of gateway.models that answers every call in its place");
  parser.add_option("--script", args->script, "file with what the model samples, call by call (gateway/script.h)");
  parser.add_option("--samples", args->samples, "of each task")->capture_default_str();
  parser.add_option("--temperature", args->temperature, "of every call; 0: greedy")->capture_default_str();
  return [args] { return Collect(*args); };
}

std::function<int()> DeclareTasksRate(CLI::App& parser) {
  const auto args = std::make_shared<TasksRateArgs>();
  parser.add_option("run", args->run_dir, "folder of `ingot collect`, or of a training run")->required();
  parser.add_option("out", args->out, "the file to write: its tasks with their pass rate")->required();
  parser.add_option("--above", args->above, "a sample succeeded if its outcome is above it")->capture_default_str();
  parser.add_option("--field", args->field, "the field that holds the rate")->capture_default_str();
  return [args] { return TasksRate(*args); };
}

std::function<int()> DeclareTasksFilter(CLI::App& parser) {
  const auto args = std::make_shared<TasksFilterArgs>();
  parser.add_option("tasks", args->tasks, "the task file, JSON lines")->required();
  parser.add_option("out", args->out, "the file to write: the tasks that stay")->required();
  parser.add_option("--rated", args->rated, "run folder with tries of the tasks; default: their own pass rates");
  parser.add_option("--guesses", args->guesses, "run folder with tries without reasoning");
  parser.add_option("--guess", args->guess, "tries of --guesses that count")
      ->check(CLI::PositiveNumber)
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

std::function<int()> DeclareTasksCases(CLI::App& parser) {
  const auto args = std::make_shared<TasksCasesArgs>();
  parser.add_option("problems", args->problems, "JSON lines: {\"cases\": [INPUT], \"submissions\": [PROGRAM]}")
      ->required();
  parser.add_option("out", args->out, "the file to write: the problems that stay, with their tests")->required();
  parser.add_option("--agreeing", args->agreeing, "submissions that must agree on a case")->capture_default_str();
  parser.add_option("--cases", args->cases, "cases that a problem must keep")->capture_default_str();
  parser.add_option("--passing", args->passing, "submissions that must pass every kept case")->capture_default_str();
  parser.add_option("--timeout", args->timeout_s, "seconds of one submission on one case")->capture_default_str();
  parser.add_option("--threads", args->threads, "programs at a time")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  parser.add_flag("--allow-process", args->allow_process, "run the programs on the sandbox's rung `process` too");
  return [args] { return TasksCases(*args); };
}

std::function<int()> DeclareExport(CLI::App& parser) {
  const auto args = std::make_shared<ExportArgs>();
  parser.add_option("run", args->run_dir, "the run's folder")->required();
  parser.add_option("out", args->out, "the file to write, JSON lines for data.sft or data.dpo")->required();
  parser
      .add_option(
          "--as", args->as,
          "sft: correct episodes; dpo: pairs, chosen the shortest correct one of its group; atif: every finished "
          "episode as a trajectory of Harbor")
      ->check(CLI::IsMember({"sft", "dpo", "atif"}))
      ->capture_default_str();
  parser.add_option("--above", args->above, "an episode is correct if its outcome is above it")->capture_default_str();
  parser.add_flag("--shortest", args->shortest, "sft: of each group the shortest correct episode alone");
  parser.add_option("--recall", args->recall,
                    "sft: the signal with an episode's recall, which decides in place of the outcome");
  parser
      .add_option("--recall-high", args->recall_high,
                  "recall from which on every episode is kept; below, in proportion")
      ->check(CLI::Range(0.01, 1.0))
      ->capture_default_str();
  parser.add_option("--zero-share", args->zero_share, "greatest share of episodes with recall 0")
      ->check(CLI::Range(0.0, 0.99))
      ->capture_default_str();
  return [args] { return Export(*args); };
}

std::function<int()> DeclareImport(CLI::App& parser) {
  const auto args = std::make_shared<ImportArgs>();
  // Overrides stand behind --set alone: words without it are files.
  parser.add_option("config", args->run.config, "the run's YAML file")->required();
  parser.add_option("--set", args->run.overrides, "override one key: --set run.name=imported (repeatable)")
      ->allow_extra_args(false);
  parser.add_option("files", args->files, "trajectories in ATIF: one JSON object a file, or JSON lines")->required();
  return [args] { return Import(*args); };
}

}  // namespace ingot::app
