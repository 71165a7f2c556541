#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/commands/command_line/command.h"
#include "app/commands/model/engine_command.h"
#include "app/commands/model/evaluate.h"
#include "app/commands/model/learn.h"
#include "app/commands/model/model_command.h"
#include "app/commands/model/rollback.h"
#include "app/commands/model/serve.h"
#include "app/commands/model/text_command.h"
#include "app/run/process.h"
#include "app/run/run_args.h"

namespace ingot::app {
namespace {

Command::Run DeclareText(CLI::App& parser) {
  const auto args = std::make_shared<TextArgs>();
  const std::string name = parser.get_name();
  const auto& commands = TextCommands();
  const auto entry =
      std::find_if(commands.begin(), commands.end(), [&](const auto& known) { return known.name == name; });
  for (const std::string_view option : entry->options) {
    if (option == "tokenizer") {
      parser.add_option("--tokenizer", args->tokenizer_dir, "a folder with tokenizer.json")->required();
    } else if (option == "special") {
      parser.add_flag("--special", args->special, "add the special tokens that the tokenizer puts around text");
    } else if (option == "skip-special") {
      parser.add_flag("--skip-special", args->skip_special, "omit special tokens");
    } else if (option == "like-transformers") {
      parser.add_flag("--like-transformers", args->like_transformers,
                      "prepare messages like newer versions of transformers, without null fields");
    } else {
      parser.add_option("--format", args->format, "name of an output format, or a .json file of one")->required();
    }
  }
  return [args, name] {
    std::ios::sync_with_stdio(false);
    return RunTextCommand(name, *args, std::cin, std::cout, std::cerr);
  };
}

std::vector<Command> TextGroup() {
  std::vector<Command> group;
  for (const TextCommand& entry : TextCommands()) {
    group.push_back({std::string(entry.name), std::string(entry.help), DeclareText});
  }
  return group;
}

// Adds the options of `ingot model info` for the plan of a GPU's memory.
void AddPlanOptions(CLI::App& parser, ModelArgs& args) {
  CLI::Option* const device =
      parser.add_option("--device", args.device, "plan the memory of a GPU, such as h100, or 24 for 24 GiB")
          ->type_name("GPU");
  parser.add_option("--ranks", args.ranks, "trainer ranks that divide all layers, one for each GPU")
      ->check(CLI::Range(1, 128))
      ->needs(device);
  parser.add_option("--lora-rank", args.lora_rank, "train adapters of this rank; 0: all weights")
      ->check(CLI::Range(0, 4096));
  parser.add_flag("--checkpoint-layers", args.checkpoint_layers, "trainer.checkpoint_layers: true")->needs(device);
  parser.add_option("--context-length", args.context_length, "rollout.context_length; 0: the model's")
      ->check(CLI::Range(0, 1 << 30))
      ->needs(device);
  parser.add_flag("--json", args.json, "with --device: print JSON instead of a table")->needs(device);
}

Command::Run DeclareModel(CLI::App& parser) {
  const auto args = std::make_shared<ModelArgs>();
  const std::string name = parser.get_name();
  const auto& commands = ModelCommands();
  const auto entry =
      std::find_if(commands.begin(), commands.end(), [&](const auto& known) { return known.name == name; });
  for (const std::string_view option : entry->options) {
    if (option == "file") parser.add_option("file", args->file, "GGUF file")->required();
    if (option == "model")
      parser.add_option(name == "info" ? "model,--model" : "--model", args->dir, "model folder or checkpoint")
          ->required();
    if (option == "out") parser.add_option("out", args->out, "folder to write")->required();
    if (option == "adapter") parser.add_option("--adapter", args->adapter, "PEFT folder with an adapter for the model");
    if (option == "with")
      parser.add_option("--with", args->other, "second model of the same shape, to average with the first");
    if (option == "base")
      parser.add_option("--base", args->other, "name of the base model to write into the adapter's configuration");
    if (option == "ids")
      parser.add_option("--ids", args->ids, "token ids: 1,2,3")
          ->required()
          ->delimiter(',')
          ->check(CLI::TypeValidator<int64_t>("INT"));
    if (option == "dtype")
      parser.add_option("--dtype", args->dtype, "number format of the result; model: the folder's own")
          ->type_name("{fp32,bf16,model}");
    if (option == "all") parser.add_flag("--all", args->all, "print the logits of every position, not only the last");
    if (option == "kv-cache-tokens")
      parser.add_option("--kv-cache-tokens", args->kv_cache_tokens, "size of the KV cache for serving, in tokens")
          ->check(AtLeastOne());
    if (option == "micro-batch-tokens") {
      parser.add_option("--micro-batch-tokens", args->micro_batch_tokens, "number of rows per training pass")
          ->check(AtLeastOne());
    }
    if (option == "plan") AddPlanOptions(parser, *args);
  }
  return [args, name] { return RunModelCommand(name, *args, std::cout, std::cerr); };
}

std::vector<Command> ModelGroup() {
  std::vector<Command> group;
  for (const ModelCommand& entry : ModelCommands()) {
    group.push_back({std::string(entry.name), std::string(entry.help), DeclareModel});
  }
  return group;
}

Command::Run DeclareEval(CLI::App& parser) {
  const auto args = std::make_shared<EvaluateArgs>();
  parser.add_option("checkpoint", args->checkpoint, "a checkpoint or model folder")->required();
  AddRunArgs(parser, args->run);
  parser
      .add_option(
          "--require", args->requirements,
          "exit with 1 unless this holds: 'reward_mean >= best - 0.02' compares with the best evaluation of "
          "another checkpoint, 'pass@4 > 0.5' with a number, and 'reward_mean@scaffold:NAME > 0.5' is about one "
          "scaffold (repeatable)")
      ->type_name("CONDITION")
      ->allow_extra_args(false);
  parser
      .add_option("--scaffold", args->scaffolds,
                  "evaluate only with this recipe, on all held-out tasks, whatever its domains; repeatable: one after "
                  "another, with a row in the table for each; default: the recipes share the tasks, as in the run")
      ->type_name("NAME")
      ->allow_extra_args(false);
  parser
      .add_option(
          "--pass", args->pass,
          "pass@K to show in the table, at most eval.avg_n (repeatable); default: 1 and the largest power of two")
      ->type_name("K")
      ->allow_extra_args(false);
  parser.add_flag("--json", args->json,
                  "print one JSON object with the table's rows, all figures, and the requirements");
  return [args] { return Evaluate(*args); };
}

// Adds --learn and its options. Its settings are in the configuration, so it excludes the options added before.
std::shared_ptr<const RunArgs> AddLearning(CLI::App& parser) {
  const std::vector<CLI::Option*> others =
      parser.get_options([](CLI::Option* option) { return !option->check_lname("help"); });
  const auto args = std::make_shared<RunArgs>();
  CLI::Option* const learn =
      parser.add_option("--learn", args->config,
                        "run.yaml: serve this run's model instead, and train it on the feedback of users (learn.*)");
  for (CLI::Option* const other : others) learn->excludes(other);
  AddSet(parser, args->overrides, "learn.round_answers=128")->needs(learn);
  parser.add_flag("--resume", args->resume, "with --learn: continue the run from its deployed version")->needs(learn);
  return args;
}

Command::Run DeclareServe(CLI::App& parser) {
  const auto args = std::make_shared<ServeArgs>();
  parser.add_option("model_dir", args->model_dir, "Hugging Face model folder or checkpoint");
  parser.add_option("--host", args->host, "address to listen on")->capture_default_str();
  parser.add_option("--port", args->port, "port to listen on; 0: any free port")->capture_default_str();
  parser.add_option("--tls-certificate", args->tls_certificate, "PEM file with the certificate for HTTPS");
  parser.add_option("--tls-key", args->tls_key, "PEM file of the certificate's private key");
  parser.add_flag("--allow-plaintext", args->allow_plaintext, "allow an address other than loopback without TLS");
  AddSites(parser, args->allow_hosts, args->allow_origins);
  parser.add_option("--model", args->model_name, "model name in requests; default: the folder's name");
  parser
      .add_option("--also", args->also, "NAME=DIR: another model with the same tokenizer, under this name (repeatable)")
      ->allow_extra_args(false);
  parser.add_option("--adapter", args->adapters, "NAME=DIR: a PEFT adapter of the model, under this name (repeatable)")
      ->allow_extra_args(false);
  parser.add_flag("--any-model-name", args->any_model_name,
                  "also answer requests for unknown models, with the first model; default: a 404 with the known names");
  parser
      .add_option("--rollout-port", args->rollout_port,
                  "also serve token ids over gRPC on this port, for `external` models of another run's gateway.models")
      ->check(CLI::Range(0, 65535));
  parser.add_option("--token-file", args->token_file,
                    "owner-only file with the token that --rollout-port requires (`openssl rand -hex 32`)");
  parser.add_option("--chat-format", args->chat_format, "chat format; default: the folder's");
  parser.add_option("--chat-template", args->chat_template, "Jinja file instead of the folder's chat template");
  parser
      .add_option("--template-variable", args->template_variables,
                  "NAME=VALUE: a variable of the chat template for all requests, such as enable_thinking=false "
                  "(repeatable)")
      ->allow_extra_args(false);
  parser.add_option("--script", args->script, "file for a scripted model, with one answer per call (JSON lines)");
  parser.add_option("--metrics-socket", args->metrics_socket,
                    "serve /metrics (Prometheus) on this socket file, only for this user");
  parser.add_option("--record", args->record, "folder in which to store every call and every request to the engine");
  parser
      .add_option("--max-tokens", args->max_tokens,
                  "maximum number of tokens in an answer; 0: what fits into the context")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  parser
      .add_option("--kv-cache-tokens", args->kv_cache_tokens,
                  "size of the KV cache in tokens; must fit a request and its answer")
      ->check(AtLeastOne())
      ->capture_default_str();
  AddThreads(parser, args->threads, "compute threads; 0: all cores");
  parser.add_option("--device", args->device, "auto, cpu, or cuda; auto: CUDA if there is a device")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  const std::shared_ptr<const RunArgs> learn = AddLearning(parser);
  return [args, learn] {
    if (!learn->config.empty()) return ServeAndLearn(*learn);
    if (!args->model_dir.empty()) return Serve(*args);
    return Fail(absl::InvalidArgumentError("name a model folder, or a configuration with --learn"));
  };
}

Command::Run DeclareRollback(CLI::App& parser) {
  const auto args = std::make_shared<RollbackArgs>();
  parser.add_option("run_dir", args->run_dir, "runs/NAME of `ingot serve --learn`")->required();
  parser
      .add_option("--to", args->to, "the earlier deployed version; default: the last one before the deployed weights")
      ->type_name("VERSION")
      ->check(CLI::NonNegativeNumber);
  return [args] { return RollBack(*args); };
}

Command::Run DeclareEngineCheck(CLI::App& parser) {
  const auto args = std::make_shared<EngineCheckArgs>();
  parser.add_option("url", args->url, "URL of the server, such as http://127.0.0.1:8000")->required();
  parser.add_option("--model", args->model_dir, "the model folder that the server runs")->required();
  parser.add_option("--engine", args->engine, "the server's kind")
      ->check(CLI::IsMember({"vllm", "sglang"}))
      ->capture_default_str();
  parser.add_option(
      "--write", args->write_dir,
      "folder that the server can open, to also check loads; the server has its weights again afterwards");
  parser
      .add_option(
          "--exchange", args->exchange,
          "rollout.external.exchange of the runs on this machine; a server that one of them uses is not checked")
      ->capture_default_str();
  parser.add_option("--api-key-file", args->api_key_file, "file with the server's key");
  parser.add_option("--context-length", args->context_length, "context length in tokens; 0: the model's")
      ->check(CLI::Range(0, 1 << 30));
  parser.add_option("--timeout", args->timeout_s, "timeout for one request, in seconds")
      ->check(AtLeastOne())
      ->capture_default_str();
  parser.add_flag("--may-crash", args->may_crash, "also send requests that have crashed servers");
  parser.add_flag("--json", args->json, "print JSON");
  AddThreads(parser, args->threads, "compute threads; 0: all cores");
  return [args] { return CheckEngineCommand(*args, std::cout, std::cerr); };
}

std::vector<Command> EngineGroup() {
  return {{.name = "check",
           .summary = "measure whether a vLLM or SGLang server can sample for a run",
           .declare = DeclareEngineCheck,
           .computes = true,
           .holds_keys = true}};
}

}  // namespace

std::vector<Command> ModelFolderCommands() {
  return {
      {"text", "run tokenizers, chat templates, and parsers on JSON lines", nullptr, TextGroup()},
      {"model", "inspect, convert, and merge model folders", nullptr, ModelGroup(), true},
      {"engine", "check other projects' rollout servers", nullptr, EngineGroup(), true},
      {.name = "eval",
       .summary = "evaluate a configuration's held-out tasks on a checkpoint",
       .declare = DeclareEval,
       .computes = true,
       .holds_keys = true},
      {.name = "serve",
       .summary = "serve a model folder over the gateway's API",
       .declare = DeclareServe,
       .group = {{"rollback", "deploy an earlier version of `ingot serve --learn` again", DeclareRollback}},
       .computes = true,
       .holds_keys = true,
       .logs = true},
  };
}

}  // namespace ingot::app
