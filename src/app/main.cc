// The command line of Ingot: a table of commands, each with its arguments, and their dispatch.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "app/bench_command.h"
#include "app/bench_sandbox.h"
#include "app/command_errors.h"
#include "app/commands.h"
#include "app/data_commands.h"
#include "app/harbor_command.h"
#include "app/model_command.h"
#include "app/process.h"
#include "app/rollout_bench.h"
#include "app/sandbox_serve.h"
#include "app/simulate_command.h"
#include "app/text_command.h"
#include "app/thread_waits.h"
#include "app/threads.h"
#include "app/view_commands.h"

namespace {

using ingot::app::AddRunArgs;
using ingot::app::RunArgs;

using Run = std::function<int()>;  // runs a command with its arguments; returns the exit code

// A thread that the system did not give ends the command with an error; libraries throw it from wherever they are.
int RunOrFail(const Run& run) {
  try {
    return run();
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) throw;
    return ingot::app::Fail(ingot::app::TooFewThreads(error.what()));
  }
}

struct Command {
  std::string name;
  std::string summary;
  // Adds the command's arguments to the parser; the result runs the command once they are parsed. Null = a group.
  Run (*declare)(CLI::App& parser) = nullptr;
  std::vector<Command> group = {};  // the commands of a group
  bool computes = false;            // with threads of OpenMP
  bool holds_keys = false;          // its memory is hidden (process.h)
};

void AddThreads(CLI::App& parser, int& threads, const std::string& meaning) {
  parser.add_option("--threads", threads, meaning)->check(CLI::Range(0, 4096))->capture_default_str();
}

template <int (*RunWith)(const RunArgs&)>
Run DeclareRun(CLI::App& parser) {
  const auto args = std::make_shared<RunArgs>();
  AddRunArgs(parser, *args);
  return [args] { return RunWith(*args); };
}

template <int (*RunWith)(const RunArgs&)>
Run DeclareResumable(CLI::App& parser) {
  const auto args = std::make_shared<RunArgs>();
  AddRunArgs(parser, *args);
  parser.add_flag("--resume", args->resume, "continue the run from its last checkpoint and journal");
  return [args] { return RunWith(*args); };
}

Run DeclareLaunch(CLI::App& parser) {
  const auto args = std::make_shared<ingot::app::LaunchArgs>();
  AddRunArgs(parser, args->run);
  parser.add_flag("--resume", args->run.resume, "continue the run from its last checkpoint and journal");
  parser.add_flag("--dry-run", args->dry_run, "print what would be started, and start nothing");
  return [args] { return ingot::app::Launch(*args); };
}

Run DeclareNode(CLI::App& parser) {
  const auto args = std::make_shared<ingot::app::NodeArgs>();
  AddRunArgs(parser, args->run);
  parser.add_flag("--resume", args->run.resume, "continue the run from its last checkpoint and journal");
  parser.add_option("--group", args->group, "the group of cluster.groups whose roles this node runs")->required();
  parser
      .add_option("--node", args->node, "number of this node within its group, from 0; default: the launcher's, or 0")
      ->check(CLI::NonNegativeNumber);
  parser.add_option("--probe", args->probe, "ask the node's agent: alive, or ready (all its roles run)")
      ->check(CLI::IsMember({"alive", "ready"}));
  return [args] { return ingot::app::RunNode(*args); };
}

void AddTokenFd(CLI::App& parser, RunArgs& args) {
  parser.add_option("--token-fd", args.token_fd, "descriptor with the run's token, in place of cluster.token_file")
      ->check(CLI::NonNegativeNumber);
}

Run DeclareStatus(CLI::App& parser) {
  const auto args = std::make_shared<RunArgs>();
  AddRunArgs(parser, *args);
  AddTokenFd(parser, *args);
  return [args] { return ingot::app::ShowStatus(*args); };
}

Run DeclareRole(CLI::App& parser) {
  struct Args {
    RunArgs run;
    int index = 0;
    pid_t parent = 0;
  };
  const auto args = std::make_shared<Args>();
  const std::string role = parser.get_name();
  AddRunArgs(parser, args->run);
  AddTokenFd(parser, args->run);
  parser.add_flag("--resume", args->run.resume, "continue the run");
  parser.add_option("--engine", args->index, "number of this rollout engine, from 0");
  if (role == "datapool") parser.add_option("--datapool", args->index, "number of this process of the pool, from 0");
  if (role == "gateway") parser.add_option("--gateway", args->index, "number of this gateway, from 0");
  if (role == "trainer") parser.add_option("--rank", args->index, "this rank of the trainer, from 0");
  parser.add_option("--child", args->parent, "end when process PARENT, the supervisor, ends")->type_name("PARENT");
  return [args, role] {
    if (args->parent != 0) ingot::app::DieWithParent(args->parent);
    return ingot::app::RunRole(role, args->run, args->index, args->parent != 0);
  };
}

Run DeclareText(CLI::App& parser) {
  const auto args = std::make_shared<ingot::app::TextArgs>();
  const std::string name = parser.get_name();
  const auto& commands = ingot::app::TextCommands();
  const auto entry =
      std::find_if(commands.begin(), commands.end(), [&](const auto& known) { return known.name == name; });
  for (const std::string_view option : entry->options) {
    if (option == "tokenizer") {
      parser.add_option("--tokenizer", args->tokenizer_dir, "a folder with tokenizer.json")->required();
    } else if (option == "special") {
      parser.add_flag("--special", args->special, "add the special tokens that the tokenizer puts around a text");
    } else if (option == "skip-special") {
      parser.add_flag("--skip-special", args->skip_special, "leave special tokens out");
    } else if (option == "like-transformers") {
      parser.add_flag("--like-transformers", args->like_transformers,
                      "prepare messages as newer versions of transformers do: without null fields");
    } else {
      parser.add_option("--format", args->format, "name of an output format, or a .json file of one")->required();
    }
  }
  return [args, name] {
    std::ios::sync_with_stdio(false);
    return ingot::app::RunTextCommand(name, *args, std::cin, std::cout, std::cerr);
  };
}

Run DeclareModel(CLI::App& parser) {
  const auto args = std::make_shared<ingot::app::ModelArgs>();
  const std::string name = parser.get_name();
  const auto& commands = ingot::app::ModelCommands();
  const auto entry =
      std::find_if(commands.begin(), commands.end(), [&](const auto& known) { return known.name == name; });
  for (const std::string_view option : entry->options) {
    if (option == "file") parser.add_option("file", args->file, "GGUF file")->required();
    if (option == "model") parser.add_option("--model", args->dir, "model folder or checkpoint")->required();
    if (option == "out") parser.add_option("out", args->out, "folder to write")->required();
    if (option == "adapter") parser.add_option("--adapter", args->adapter, "PEFT folder with an adapter of the model");
    if (option == "with") parser.add_option("--with", args->other, "a second model of the same shape, to average");
    if (option == "base") parser.add_option("--base", args->other, "name of the base, for the adapter's readers");
    if (option == "ids")
      parser.add_option("--ids", args->ids, "token ids: 1,2,3")
          ->required()
          ->delimiter(',')
          ->check(CLI::TypeValidator<int64_t>("INT"));
    if (option == "dtype") parser.add_option("--dtype", args->dtype, "fp32, bf16 or model, the folder's own");
    if (option == "all") parser.add_flag("--all", args->all, "logits of every position, not of the last alone");
    if (option == "kv-cache-tokens") parser.add_option("--kv-cache-tokens", args->kv_cache_tokens, "of serving");
    if (option == "micro-batch-tokens") {
      parser.add_option("--micro-batch-tokens", args->micro_batch_tokens, "rows of a training pass");
    }
  }
  return [args, name] { return ingot::app::RunModelCommand(name, *args, std::cout, std::cerr); };
}

Run DeclareEval(CLI::App& parser) {
  struct Args {
    std::string checkpoint;
    RunArgs run;
  };
  const auto args = std::make_shared<Args>();
  parser.add_option("checkpoint", args->checkpoint, "a checkpoint or model folder")->required();
  AddRunArgs(parser, args->run);
  return [args] { return ingot::app::Evaluate(args->checkpoint, args->run); };
}

Run DeclareServe(CLI::App& parser) {
  const auto args = std::make_shared<ingot::app::ServeArgs>();
  parser.add_option("model_dir", args->model_dir, "Hugging Face model folder or checkpoint")->required();
  parser.add_option("--host", args->host, "address to listen on")->capture_default_str();
  parser.add_option("--port", args->port, "port; 0 takes a free one")->capture_default_str();
  parser.add_option("--tls-certificate", args->tls_certificate, "PEM file: HTTPS with this certificate");
  parser.add_option("--tls-key", args->tls_key, "PEM file of the certificate's private key");
  parser.add_flag("--allow-plaintext", args->allow_plaintext, "allow an address other than loopback without TLS");
  parser.add_option("--model", args->model_name, "model name in requests; default: the folder's name");
  parser
      .add_option("--also", args->also,
                  "NAME=DIR: a further model, with the same tokenizer, under this name (repeatable)")
      ->allow_extra_args(false);
  parser.add_option("--adapter", args->adapters, "NAME=DIR: a PEFT adapter of the model, under this name (repeatable)")
      ->allow_extra_args(false);
  parser
      .add_option("--rollout-port", args->rollout_port,
                  "also serve token ids over gRPC here: an `external` model of another run's gateway.models")
      ->check(CLI::Range(0, 65535));
  parser.add_option("--token-file", args->token_file,
                    "file with the token that --rollout-port asks for (`openssl rand -hex 32`), for its owner alone");
  parser.add_option("--chat-format", args->chat_format, "chat format; default: the folder's");
  parser.add_option("--script", args->script, "a scripted model: JSON lines with the answer of each call");
  parser.add_option("--metrics-socket", args->metrics_socket,
                    "serve /metrics (Prometheus) on a socket of this file name, for this user alone");
  parser.add_option("--record", args->record, "folder that stores every call and every request to the engine");
  parser
      .add_option("--max-tokens", args->max_tokens,
                  "greatest number of tokens of an answer; 0: the room in the context")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  parser
      .add_option("--kv-cache-tokens", args->kv_cache_tokens,
                  "tokens of the KV cache; a request and its answer must fit into it")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  AddThreads(parser, args->threads, "compute threads; 0: all cores");
  parser.add_option("--device", args->device, "auto, cpu or cuda; auto: CUDA if there is a device")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  return [args] { return ingot::app::Serve(*args); };
}

Run DeclareInspect(CLI::App& parser) {
  const auto args = std::make_shared<ingot::app::InspectArgs>();
  parser.add_option("run_dir", args->run_dir, "runs/NAME")->required();
  parser.add_option("episode", args->episode, "an episode id, or GROUP/SAMPLE; without it, a list");
  parser.add_option("--limit", args->limit, "listed episodes of training and of evaluation each; 0: all")
      ->capture_default_str();
  parser.add_flag("--json", args->json, "the stored record as JSON; of a list one record per line, with its calls");
  parser.add_flag("--journal", args->journal, "the run's journal, one JSON record per line");
  return [args] { return ingot::app::Inspect(*args); };
}

Run DeclareSimulate(CLI::App& parser) {
  const auto args = std::make_shared<ingot::app::SimulateArgs>();
  auto& options = args->options;
  CLI::Option* const from =
      parser.add_option("--from", args->run_dir, "a recorded run: its episodes' durations, and its scheduler.* keys");
  parser
      .add_option("--durations", options.durations.distribution,
                  "seconds of an episode: constant:S, uniform:LOW,HIGH, exponential:MEAN, lognormal:MEDIAN,SIGMA or "
                  "pareto:LEAST,SHAPE")
      ->capture_default_str()
      ->excludes(from);
  parser.add_option("--task-sigma", options.task_sigma, "log-normal factor that the samples of a task share")
      ->capture_default_str();
  parser.add_option("--order", args->orders, "strict, windowed or greedy (repeatable); default: all three")
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"strict", "windowed", "greedy"}));
  parser.add_option("--workers", options.workers, "episodes that run at a time, up to 10000")->capture_default_str();
  parser.add_option("--steps", options.steps, "optimizer steps")->capture_default_str();
  // These go before the keys of a recorded run.
  const std::vector<CLI::Option*> recorded = {
      parser.add_option("--groups-per-step", options.window.groups_per_step, "P")->capture_default_str(),
      parser.add_option("--group-size", options.group_size, "samples per task")->capture_default_str(),
      parser.add_option("--max-staleness", options.window.max_staleness, "S, in versions")->capture_default_str(),
      parser.add_option("--window-fraction", options.window.window_fraction, "W / B of the windowed order")
          ->capture_default_str()};
  parser.add_option("--step-s", options.step_seconds, "seconds of an optimizer step")->capture_default_str();
  parser.add_option("--publish-s", options.publish_seconds, "seconds until its weights are live")
      ->capture_default_str();
  parser.add_option("--drop-share", options.drop_share, "share of the groups whose rewards are all equal")
      ->capture_default_str();
  parser.add_option("--seed", options.seed, "equal seeds give equal figures")->capture_default_str();
  parser.add_flag("--json", args->json, "one JSON object per order");
  return [args, recorded] {
    for (const CLI::Option* option : recorded) {
      if (option->count() > 0) args->given.insert(option->get_name());
    }
    return ingot::app::RunSimulate(*args);
  };
}

Run DeclareBenchAttention(CLI::App& parser) {
  const auto args = std::make_shared<ingot::app::BenchArgs>();
  parser.add_option("--shape", args->shapes, "a named shape (repeatable); default: all")->allow_extra_args(false);
  parser.add_option("--dtype", args->dtypes, "bf16 or fp32 (repeatable); default: both")->allow_extra_args(false);
  AddThreads(parser, args->threads, "compute threads; 0: torch's default");
  parser.add_option("--instruction-set", args->instruction_set,
                    "amx, avx512bf16, avx512, avx2 or portable in place of the machine's own");
  parser.add_option("--repeat", args->repeat, "rounds; every figure is their median")->capture_default_str();
  return [args] { return ingot::app::BenchAttention(*args, std::cout, std::cerr); };
}

Run DeclareBenchTree(CLI::App& parser) {
  struct Args {
    ingot::trainer::TreeBenchOptions options;
    int threads = 0;
  };
  const auto args = std::make_shared<Args>();
  ingot::trainer::TreeBenchOptions& options = args->options;
  parser.add_option("--shape", options.shapes, "a named shape (repeatable); default: all")->allow_extra_args(false);
  parser.add_option("--scale", options.scale, "factor of the shape's lengths; 0: the largest that fits --seconds")
      ->capture_default_str();
  parser.add_option("--seconds", options.seconds, "predicted time of a shape without --scale")->capture_default_str();
  parser.add_option("--repeat", options.rounds, "rounds; every figure is their median")->capture_default_str();
  parser.add_option("--dtype", options.dtype, "type of the model: fp32 or bf16")->capture_default_str();
  parser.add_option("--hidden", options.hidden, "the model's hidden size")->capture_default_str();
  parser.add_option("--intermediate", options.intermediate, "the model's MLP size")->capture_default_str();
  parser.add_option("--layers", options.layers, "the model's layers")->capture_default_str();
  parser.add_option("--heads", options.heads, "attention heads")->capture_default_str();
  parser.add_option("--kv-heads", options.kv_heads, "key and value heads")->capture_default_str();
  parser.add_option("--head-dim", options.head_dim, "size of a head")->capture_default_str();
  parser.add_option("--vocab", options.vocab, "size of the vocabulary")->capture_default_str();
  parser.add_option("--micro-batch-tokens", options.micro_batch_tokens, "greatest number of rows of a part")
      ->capture_default_str();
  parser.add_flag("--checkpoint-layers", options.checkpoint_layers, "hold layer inputs alone, and run layers again");
  parser.add_flag("--recompute-prefix", options.recompute_prefix, "run parts that later parts see twice");
  parser.add_flag("!--no-baselines", options.baselines, "run the tree alone");
  AddThreads(parser, args->threads, "compute threads; 0: torch's default");
  return [args] { return ingot::app::BenchTree(args->options, args->threads, std::cout, std::cerr); };
}

Run DeclareBenchSandbox(CLI::App& parser) {
  const auto args = std::make_shared<ingot::app::SandboxBenchArgs>();
  parser.add_option("--starts", args->starts, "starts of each way and round")->capture_default_str();
  parser.add_option("--repeat", args->rounds, "rounds; every figure is their median")->capture_default_str();
  AddThreads(parser, args->threads, "threads that start");
  parser.add_option("--idle", args->idle, "hold this many idle rooms at once, and print their memory");
  parser.add_option("--rung", args->rung, "strongest rung to try")->capture_default_str();
  return [args] { return ingot::app::BenchSandbox(*args, std::cout, std::cerr); };
}

Run DeclareSandboxServe(CLI::App& parser) {
  const auto args = std::make_shared<ingot::app::SandboxServeArgs>();
  args->sandbox.require = "namespaces";
  parser.add_option("--host", args->http.host, "IP address to listen on")->capture_default_str();
  parser.add_option("--port", args->http.port, "0: the system chooses")->capture_default_str();
  parser.add_option("--tls-certificate", args->http.tls_certificate, "PEM file");
  parser.add_option("--tls-key", args->http.tls_key, "PEM file");
  parser.add_option("--key-file", args->key_file, "file of the key that clients show");
  parser.add_option("--slots", args->slots, "requests that run at a time")->capture_default_str();
  parser.add_option("--sessions", args->sessions, "sessions at a time")->capture_default_str();
  parser.add_option("--session-idle", args->session_idle_s, "seconds after which an unused session ends")
      ->capture_default_str();
  parser.add_option("--session-memory", args->session_memory_mib, "MiB of a session that asks for no other number")
      ->capture_default_str();
  parser
      .add_option("--memory", args->memory_mib,
                  "MiB that all sessions may use; 0: no bound, -1: three quarters of the memory that is left")
      ->capture_default_str();
  parser.add_option("--require", args->sandbox.require, "least rung: none, landlock, namespaces, full")
      ->capture_default_str();
  parser.add_option("--store", args->store, "folder of images");
  return [args] { return ingot::app::SandboxServe(*args); };
}

Run DeclareImage(CLI::App& parser) {
  const auto args = std::make_shared<ingot::app::ImageArgs>();
  parser
      .add_option("source", args->source,
                  "oci-archive:FILE, docker-archive:FILE, oci:FOLDER, dockerfile:FOLDER, docker://NAME")
      ->required();
  parser.add_option("--store", args->store, "folder of images; default: images/ in the default agents.work_root");
  return [args] { return ingot::app::UnpackImage(*args, std::cout, std::cerr); };
}

Run DeclareTasksCheck(CLI::App& parser) {
  const auto args = std::make_shared<ingot::app::TasksCheckArgs>();
  parser.add_option("folder", args->folder, "a folder of Harbor tasks, or one task")->required();
  parser.add_option("--store", args->store, "folder of images; default: images/ in the default agents.work_root");
  parser.add_flag("--only-read", args->only_read, "list the tasks, and run none");
  parser.add_flag("--without-images", args->without_images,
                  "try them with this machine's programs and the work folder at /app, in place of their images");
  return [args] { return ingot::app::CheckTasks(*args, std::cout, std::cerr); };
}

Run DeclareBenchRollout(CLI::App& parser) {
  const auto args = std::make_shared<ingot::app::RolloutBenchArgs>();
  parser.add_option("--model", args->dir, "model folder or checkpoint")->required();
  parser.add_option("--streams", args->streams, "requests at once: 1,4,16")->delimiter(',')->capture_default_str();
  parser.add_option("--prompt-tokens", args->prompt_tokens, "of the figure of prefill")->capture_default_str();
  parser.add_option("--new-tokens", args->new_tokens, "that each stream decodes")->capture_default_str();
  parser.add_option("--repeat", args->repeat, "rounds; every figure is their median")->capture_default_str();
  AddThreads(parser, args->threads, "compute threads; 0: all cores");
  return [args] { return ingot::app::BenchRollout(*args, std::cout, std::cerr); };
}

Run DeclareExplain(CLI::App& parser) {
  const auto key = std::make_shared<std::string>();
  parser.add_option("key", *key, "a key or section");
  return [key] { return ingot::app::ConfigExplain(*key); };
}

std::vector<Command> TextGroup() {
  std::vector<Command> group;
  for (const ingot::app::TextCommand& entry : ingot::app::TextCommands()) {
    group.push_back({std::string(entry.name), std::string(entry.help), DeclareText});
  }
  return group;
}

std::vector<Command> ModelGroup() {
  std::vector<Command> group;
  for (const ingot::app::ModelCommand& entry : ingot::app::ModelCommands()) {
    group.push_back({std::string(entry.name), std::string(entry.help), DeclareModel});
  }
  return group;
}

Command RoleCommand(const std::string& role) {
  return {.name = role,
          .summary = "run the " + role + " role of a run as this process",
          .declare = DeclareRole,
          .computes = role == "rollout" || role == "trainer",
          .holds_keys = true};
}

// Every command, in the order of the help.
std::vector<Command> Commands() {
  using namespace ingot::app;  // NOLINT(google-build-using-namespace)
  return {
      {.name = "train",
       .summary = "run everything in this process: data pool, scheduler, engine, gateway, agents, trainer",
       .declare = DeclareResumable<Train>,
       .computes = true,
       .holds_keys = true},
      {.name = "launch",
       .summary = "run every role as its own supervised process on this machine, or submit the run to Slurm",
       .declare = DeclareLaunch,
       .holds_keys = true},
      {.name = "node",
       .summary = "run the roles of one node of a run on several machines",
       .declare = DeclareNode,
       .holds_keys = true},
      RoleCommand("datapool"),
      RoleCommand("rewards"),
      RoleCommand("scheduler"),
      RoleCommand("rollout"),
      RoleCommand("gateway"),
      RoleCommand("trainer"),
      RoleCommand("agents"),
      {.name = "status",
       .summary = "print the state of a launched run's roles",
       .declare = DeclareStatus,
       .holds_keys = true},
      {"text", "run tokenizers, chat templates and parsers: JSON lines in, JSON lines out", nullptr, TextGroup()},
      {"model", "look into model folders, and make them from others", nullptr, ModelGroup(), true},
      {.name = "eval",
       .summary = "evaluate a configuration's held-out tasks on a checkpoint",
       .declare = DeclareEval,
       .computes = true,
       .holds_keys = true},
      {.name = "serve",
       .summary = "serve a model folder over the gateway's API",
       .declare = DeclareServe,
       .computes = true,
       .holds_keys = true},
      {"inspect", "print a run's trajectories as trees", DeclareInspect},
      {.name = "view",
       .summary = "serve a run's page, or print a link to it",
       .declare = DeclareView,
       .holds_keys = true},
      {"report", "write a run's report, one HTML file", DeclareReport},
      {"compare", "compare runs: rewards and evaluations with intervals", DeclareCompare},
      {"export", "write a run's correct episodes as data for supervised training", DeclareExport},
      {.name = "collect",
       .summary = "run the agents on the training tasks, several samples each, and train nothing",
       .declare = DeclareCollect,
       .computes = true,
       .holds_keys = true},
      {"tasks",
       "measure, filter and try tasks",
       nullptr,
       {{"check", "try Harbor's tasks: the solution must give 1, and doing nothing must not", DeclareTasksCheck},
        {"rate", "write the tasks of a run with their measured pass rates", DeclareTasksRate},
        {"filter", "drop tasks that are trivial, impossible or easy to guess", DeclareTasksFilter},
        {"cases", "keep the test cases on which submissions agree, and the problems with enough of them",
         DeclareTasksCases}}},
      {"import", "make a pool of trajectories in ATIF, Harbor's format", DeclareImport},
      {"regrade", "score a run's stored groups again under other rewards", DeclareRegrade},
      {"sandbox",
       "rooms without a run",
       nullptr,
       {{.name = "serve",
         .summary = "execute code in rooms, over HTTP",
         .declare = DeclareSandboxServe,
         .holds_keys = true}}},
      {"image", "unpack an image into a folder that rooms of agents run on", DeclareImage},
      {"simulate", "orders of finished groups beside each other, in simulated time", DeclareSimulate},
      {"bench",
       "measure this machine, one JSON object per figure",
       nullptr,
       {{"attention", "tree attention beside torch's matrix product and attention", DeclareBenchAttention},
        {"rollout", "prefill and decoding of a model folder by the rollout engine", DeclareBenchRollout},
        {"tree", "the whole training step on trees and without them, beside its bound", DeclareBenchTree},
        {"sandbox", "starts of commands in rooms of this machine's strongest rung, beside crun", DeclareBenchSandbox}},
       true},
      {"config",
       "check a configuration or explain its keys",
       nullptr,
       {{"check", "load a run's YAML, print the effective configuration or the error", DeclareRun<ConfigCheck>},
        {"explain", "every key with its type, default and meaning", DeclareExplain},
        {"schema", "every key as a JSON Schema, for editors", DeclareConfigSchema}}},
      {"init", "make a folder with a small run, ready to train", DeclareInit},
      {"doctor", "say what this machine can, and what to do about it", DeclareDoctor},
      {"completion",
       "complete the command line in a shell",
       nullptr,
       {{"bash", "source <(ingot completion bash)", DeclareCompletion},
        {"zsh", "source <(ingot completion zsh)", DeclareCompletion},
        {"fish", "ingot completion fish | source", DeclareCompletion},
        {"words", "the words that may come next, for these scripts", DeclareCompletionWords}}},
  };
}

// Adds `commands` to the parser; the one that the command line names sets `code`.
void AddCommands(CLI::App& parser, const std::vector<Command>& commands, int& code) {
  parser.require_subcommand(1);
  for (const Command& command : commands) {
    CLI::App* const own = parser.add_subcommand(command.name, command.summary);
    if (command.declare == nullptr) {
      AddCommands(*own, command.group, code);
    } else {
      own->callback([run = command.declare(*own), hides = command.holds_keys, &code] {
        if (hides) ingot::app::HideMemory();
        code = RunOrFail(run);
      });
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<Command> commands = Commands();
  const auto computes = [&](const Command& command) { return command.computes && command.name == argv[1]; };
  if (argc > 1 && std::any_of(commands.begin(), commands.end(), computes)) ingot::app::BoundSpinning(argv);
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // line by line: a run redirected into a file can be watched
  CLI::App app("Ingot: asynchronous reinforcement learning for agents");
  app.set_version_flag("--version", "ingot " INGOT_VERSION);
  int code = 0;
  AddCommands(app, commands, code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help, --version, unless an unknown word stands before them.
    if (error.get_exit_code() == 0 && app.remaining(true).empty()) return app.exit(error);
    std::cerr << ingot::app::DescribeError(app, error) << "\n";
    return 2;
  }
  return code;
}
