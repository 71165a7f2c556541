// The command line of Ingot.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "app/bench_command.h"
#include "app/commands.h"
#include "app/process.h"
#include "app/text_command.h"
#include "base/config.h"

namespace {

using ingot::app::RunArgs;

void AddRunArgs(CLI::App* command, RunArgs& args) {
  command->add_option("config", args.config, "the run's YAML file")->required();
  command->add_option("--set", args.overrides, "override one key: --set trainer.learning_rate=1e-3 (repeatable)")
      ->allow_extra_args(false);
}

// `ingot text NAME`: a command per entry of TextCommands.
void AddTextCommands(CLI::App& app, ingot::app::TextArgs& args, int& code) {
  auto* text = app.add_subcommand("text", "what this project makes of text: JSON lines in, JSON lines out");
  text->require_subcommand(1);
  for (const ingot::app::TextCommand& entry : ingot::app::TextCommands()) {
    auto* command = text->add_subcommand(std::string(entry.name), std::string(entry.help));
    for (const std::string_view option : entry.options) {
      if (option == "tokenizer") {
        command->add_option("--tokenizer", args.tokenizer_dir, "a folder with tokenizer.json")->required();
      } else if (option == "special") {
        command->add_flag("--special", args.special, "add what the tokenizer's template puts around a text");
      } else if (option == "skip-special") {
        command->add_flag("--skip-special", args.skip_special, "leave special tokens out");
      } else if (option == "like-transformers") {
        command->add_flag("--like-transformers", args.like_transformers,
                          "prepare messages as newer versions of transformers do: without null fields");
      } else {
        command->add_option("--format", args.format, "name of an output format, or a .json file of one")->required();
      }
    }
    command->callback([&args, &code, name = entry.name] {
      std::ios::sync_with_stdio(false);
      code = ingot::app::RunTextCommand(name, args, std::cin, std::cout, std::cerr);
    });
  }
}

// An error for a word of the command line that is no command, with the nearest command; empty = there is no such word.
std::string UnknownCommand(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().back();
  const std::vector<std::string> words = at->remaining();
  const std::vector<const CLI::App*> commands = at->get_subcommands([](const CLI::App*) { return true; });
  const auto word = std::find_if(words.begin(), words.end(), [](const std::string& w) { return w[0] != '-'; });
  if (word == words.end() || commands.empty()) return "";
  const auto distance = [&](const CLI::App* command) { return ingot::base::EditDistance(*word, command->get_name()); };
  const CLI::App* nearest = *std::min_element(commands.begin(), commands.end(),
                                              [&](const auto* a, const auto* b) { return distance(a) < distance(b); });
  return "unknown command '" + *word + "'; the nearest is '" + nearest->get_name() + "'";
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // line by line: a run redirected into a file can be watched
  CLI::App app("Ingot: asynchronous reinforcement learning for agents");
  app.require_subcommand(1);
  app.set_version_flag("--version", "ingot " INGOT_VERSION);
  int code = 0;
  RunArgs run;

  auto* train = app.add_subcommand("train",
                                   "run everything in this process: data pool, scheduler, engine, gateway, "
                                   "agents, trainer");
  AddRunArgs(train, run);
  train->add_flag("--resume", run.resume, "continue the run from its last checkpoint and journal");
  train->callback([&] { code = ingot::app::Train(run); });

  auto* launch = app.add_subcommand("launch", "run every role as its own supervised process on this machine");
  AddRunArgs(launch, run);
  launch->add_flag("--resume", run.resume, "continue the run from its last checkpoint and journal");
  launch->callback([&] { code = ingot::app::Launch(run); });

  int index = 0;
  pid_t parent = 0;
  for (const char* role : {"datapool", "scheduler", "rollout", "gateway", "trainer", "agents"}) {
    auto* command = app.add_subcommand(role, std::string("run the ") + role + " role of a run as this process");
    AddRunArgs(command, run);
    command->add_flag("--resume", run.resume, "continue the run");
    command->add_option("--engine", index, "which rollout engine this is, from 0");
    if (std::string(role) == "trainer") command->add_option("--rank", index, "which of the trainer's ranks, from 0");
    command->add_option("--child", parent, "end when process PARENT, which started this one, ends")
        ->type_name("PARENT");
    command->callback([&, role] {
      if (parent != 0) ingot::app::DieWithParent(parent);
      code = ingot::app::RunRole(role, run, index, parent != 0);
    });
  }

  auto* status = app.add_subcommand("status", "ask the roles of a launched run how they are");
  AddRunArgs(status, run);
  status->callback([&] { code = ingot::app::ShowStatus(run); });

  ingot::app::TextArgs text_args;
  AddTextCommands(app, text_args, code);

  std::string checkpoint;
  auto* eval = app.add_subcommand("eval", "run a configuration's held-out tasks on a checkpoint");
  eval->add_option("checkpoint", checkpoint, "a checkpoint or model folder")->required();
  AddRunArgs(eval, run);
  eval->callback([&] { code = ingot::app::Evaluate(checkpoint, run); });

  ingot::app::ServeArgs serve_args;
  auto* serve = app.add_subcommand("serve", "serve a model folder over the gateway's API");
  serve->add_option("model_dir", serve_args.model_dir, "Hugging Face model folder or checkpoint")->required();
  serve->add_option("--host", serve_args.host, "address to listen on")->capture_default_str();
  serve->add_option("--port", serve_args.port, "port; 0 takes a free one")->capture_default_str();
  serve->add_option("--tls-certificate", serve_args.tls_certificate, "PEM file: HTTPS with this certificate");
  serve->add_option("--tls-key", serve_args.tls_key, "PEM file of the certificate's private key");
  serve->add_flag("--allow-plaintext", serve_args.allow_plaintext,
                  "another address than loopback may be listened on without TLS");
  serve->add_option("--model", serve_args.model_name, "name that clients use; default: the folder's");
  serve
      ->add_option("--also", serve_args.also,
                   "NAME=DIR: a further model, with the same tokenizer, under this name (repeatable)")
      ->allow_extra_args(false);
  serve
      ->add_option("--rollout-port", serve_args.rollout_port,
                   "also serve token ids over gRPC here: an `external` model of another run's gateway.models")
      ->check(CLI::Range(0, 65535));
  serve->add_option("--chat-format", serve_args.chat_format, "chat format; default: what the folder says");
  serve->add_option("--script", serve_args.script, "a scripted model: JSON lines that say what each call samples");
  serve->add_option("--record", serve_args.record, "folder that keeps every call, and what the engine was asked");
  serve
      ->add_option("--max-tokens", serve_args.max_tokens,
                   "tokens of an answer, at most; 0: as many as the context has room for")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  serve
      ->add_option("--kv-cache-tokens", serve_args.kv_cache_tokens,
                   "size of the KV cache; a request and its answer have to fit into it")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  serve->add_option("--threads", serve_args.threads, "compute threads; 0: all cores")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  serve->add_option("--device", serve_args.device, "auto, cpu or cuda; auto: CUDA if there is a device")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  serve->callback([&] { code = ingot::app::Serve(serve_args); });

  ingot::app::InspectArgs inspect_args;
  auto* inspect = app.add_subcommand("inspect", "print a run's trajectories as trees");
  inspect->add_option("run_dir", inspect_args.run_dir, "runs/NAME")->required();
  inspect->add_option("episode", inspect_args.episode, "an episode id, or GROUP/SAMPLE; without it, a list");
  inspect->add_option("--limit", inspect_args.limit, "episodes to list of training and of evaluation each; 0: all")
      ->capture_default_str();
  inspect->add_flag("--json", inspect_args.json, "the stored record as JSON");
  inspect->add_flag("--journal", inspect_args.journal, "the run's journal, one JSON record per line");
  inspect->callback([&] { code = ingot::app::Inspect(inspect_args); });

  auto* bench = app.add_subcommand("bench", "measure this machine, one JSON object per figure");
  bench->require_subcommand(1);
  ingot::app::BenchArgs bench_args;
  auto* attention = bench->add_subcommand("attention", "tree attention beside torch's matrix product and attention");
  attention->add_option("--shape", bench_args.shapes, "a named shape (repeatable); default: all")
      ->allow_extra_args(false);
  attention->add_option("--dtype", bench_args.dtypes, "bf16 or fp32 (repeatable); default: both")
      ->allow_extra_args(false);
  attention->add_option("--threads", bench_args.threads, "compute threads; 0: torch's default")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  attention->add_option("--instruction-set", bench_args.instruction_set,
                        "amx, avx512bf16, avx512, avx2 or portable in place of the machine's own");
  attention->add_option("--repeat", bench_args.repeat, "rounds; every figure is their median")->capture_default_str();
  attention->callback([&] { code = ingot::app::BenchAttention(bench_args, std::cout, std::cerr); });

  ingot::trainer::TreeBenchOptions tree_bench;
  auto* tree = bench->add_subcommand("tree", "the whole training step on trees, without them, and its bound");
  tree->add_option("--shape", tree_bench.shapes, "a named shape (repeatable); default: all")->allow_extra_args(false);
  tree->add_option("--scale", tree_bench.scale, "of the shape's lengths; 0: what fits --seconds")
      ->capture_default_str();
  tree->add_option("--seconds", tree_bench.seconds, "for a shape whose scale is not given")->capture_default_str();
  tree->add_option("--repeat", tree_bench.rounds, "rounds; every figure is their median")->capture_default_str();
  tree->add_option("--dtype", tree_bench.dtype, "of the model: fp32 or bf16")->capture_default_str();
  tree->add_option("--hidden", tree_bench.hidden, "the model's hidden size")->capture_default_str();
  tree->add_option("--intermediate", tree_bench.intermediate, "of its MLP")->capture_default_str();
  tree->add_option("--layers", tree_bench.layers, "layers")->capture_default_str();
  tree->add_option("--heads", tree_bench.heads, "attention heads")->capture_default_str();
  tree->add_option("--kv-heads", tree_bench.kv_heads, "key and value heads")->capture_default_str();
  tree->add_option("--head-dim", tree_bench.head_dim, "of a head")->capture_default_str();
  tree->add_option("--vocab", tree_bench.vocab, "vocabulary")->capture_default_str();
  tree->add_option("--micro-batch-tokens", tree_bench.micro_batch_tokens, "rows of a part, at most")
      ->capture_default_str();
  tree->add_flag("--checkpoint-layers", tree_bench.checkpoint_layers, "keep layer inputs alone");
  tree->add_flag("--recompute-prefix", tree_bench.recompute_prefix, "run what later parts see twice");
  tree->add_flag("!--no-baselines", tree_bench.baselines, "the tree alone");
  tree->add_option("--threads", bench_args.threads, "compute threads; 0: torch's default")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  tree->callback([&] { code = ingot::app::BenchTree(tree_bench, bench_args.threads, std::cout, std::cerr); });

  auto* config = app.add_subcommand("config", "check a configuration or explain its keys");
  config->require_subcommand(1);
  auto* check = config->add_subcommand("check", "load a run's YAML, print the effective configuration or the error");
  AddRunArgs(check, run);
  check->callback([&] { code = ingot::app::ConfigCheck(run); });
  std::string key;
  auto* explain = config->add_subcommand("explain", "every key with its type, default and meaning");
  explain->add_option("key", key, "a key or section");
  explain->callback([&] { code = ingot::app::ConfigExplain(key); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const std::string unknown = error.get_exit_code() == 0 ? "" : UnknownCommand(app);
    if (!unknown.empty()) {
      std::cerr << "ingot: " << unknown << "\n";
      return 2;
    }
    const int shown = app.exit(error);
    return error.get_exit_code() == 0 ? shown : 2;
  }
  return code;
}
