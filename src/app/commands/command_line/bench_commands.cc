#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <vector>

#include "app/commands/bench/bench_command.h"
#include "app/commands/bench/bench_sandbox.h"
#include "app/commands/bench/kv_bench.h"
#include "app/commands/bench/rollout_bench.h"
#include "app/commands/bench/simulate_command.h"
#include "app/commands/bench/simulate_router.h"
#include "app/commands/bench/speculation_bench.h"
#include "app/commands/command_line/command.h"

namespace ingot::app {
namespace {

Command::Run DeclareSimulate(CLI::App& parser) {
  const auto args = std::make_shared<SimulateArgs>();
  auto& options = args->options;
  CLI::Option* const from =
      parser.add_option("--from", args->run_dir, "run folder to take episode durations and scheduler.* keys from");
  parser
      .add_option("--durations", options.durations.distribution,
                  "distribution of episode durations, in seconds: constant:S, uniform:LOW,HIGH, exponential:MEAN, "
                  "lognormal:MEDIAN,SIGMA, or pareto:MIN,SHAPE")
      ->capture_default_str()
      ->excludes(from);
  parser.add_option("--task-sigma", options.task_sigma, "sigma of a log-normal factor shared by a task's samples")
      ->capture_default_str();
  parser.add_option("--order", args->orders, "strict, windowed, or greedy (repeatable); default: all three")
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"strict", "windowed", "greedy"}));
  parser.add_option("--workers", options.workers, "number of concurrent episodes, up to 10000")->capture_default_str();
  parser.add_option("--steps", options.steps, "optimizer steps")->capture_default_str();
  // These override the recorded run's keys.
  const std::vector<CLI::Option*> recorded = {
      parser.add_option("--groups-per-step", options.window.groups_per_step, "P")->capture_default_str(),
      parser.add_option("--group-size", options.group_size, "samples per task")->capture_default_str(),
      parser.add_option("--max-staleness", options.window.max_staleness, "S: maximum staleness, in versions")
          ->capture_default_str(),
      parser.add_option("--window-fraction", options.window.window_fraction, "W / B, for the windowed order")
          ->capture_default_str()};
  parser.add_option("--step-s", options.step_seconds, "seconds per optimizer step")->capture_default_str();
  parser.add_option("--publish-s", options.publish_seconds, "seconds from a step until its weights are live")
      ->capture_default_str();
  parser.add_option("--drop-share", options.drop_share, "share of groups whose rewards are all equal")
      ->capture_default_str();
  parser.add_option("--seed", options.seed, "random seed; the same seed gives the same figures")->capture_default_str();
  parser.add_flag("--json", args->json, "print one JSON object per order");
  return [args, recorded] {
    for (const CLI::Option* option : recorded) {
      if (option->count() > 0) args->given.insert(option->get_name());
    }
    return RunSimulate(*args);
  };
}

Command::Run DeclareSimulateRouter(CLI::App& parser) {
  const auto args = std::make_shared<SimulateRouterArgs>();
  rollout::EngineSimulationOptions& options = args->options;
  parser.add_option("trace", args->trace,
                    "JSON lines: episodes, or requests in the format of Mooncake's traces; default: an RL run of 40 "
                    "groups of 8 episodes with about 11 turns");
  parser.add_option("--write-trace", args->write_trace, "write the default trace to this file, and simulate nothing");
  parser.add_option("--engines", options.engines, "number of engines")->capture_default_str();
  parser.add_option("--slow", options.last_engine_speed, "speed of the last engine relative to the others")
      ->capture_default_str();
  parser.add_option("--prefill-rate", options.prefill_rate, "prompt tokens per second and engine")
      ->capture_default_str();
  parser.add_option("--decode-s", options.decode_seconds, "seconds per decoding step with few requests")
      ->capture_default_str();
  parser.add_option("--cache-tokens", options.cache_tokens, "KV cache of an engine, in tokens")->capture_default_str();
  parser.add_option("--version-s", options.version_seconds, "seconds between two weight updates; 0: none")
      ->capture_default_str();
  parser.add_option("--episodes", options.episodes, "number of concurrent episodes")->capture_default_str();
  parser.add_option("--warmup-s", options.warmup_seconds, "exclude calls from this many seconds at the start")
      ->capture_default_str();
  parser.add_option("--stay", options.router.stay, "rollout.router.stay")->capture_default_str();
  parser.add_option("--load-weight", options.router.load_weight, "rollout.router.load_weight")->capture_default_str();
  parser.add_flag("--json", args->json, "print one JSON object per router");
  return [args] { return RunSimulateRouter(*args); };
}

Command::Run DeclareBenchAttention(CLI::App& parser) {
  const auto args = std::make_shared<BenchArgs>();
  parser.add_option("--shape", args->shapes, "a named shape (repeatable); default: all")->allow_extra_args(false);
  parser.add_option("--dtype", args->dtypes, "(repeatable); default: both")
      ->type_name("{bf16,fp32}")
      ->allow_extra_args(false);
  AddThreads(parser, args->threads, "compute threads; 0: torch's default");
  parser.add_option("--instruction-set", args->instruction_set,
                    "amx, avx512bf16, avx512, avx2, or portable; default: this machine's best");
  parser.add_option("--repeat", args->repeat, "rounds; every figure is their median")->capture_default_str();
  return [args] { return BenchAttention(*args, std::cout, std::cerr); };
}

Command::Run DeclareBenchRollout(CLI::App& parser) {
  const auto args = std::make_shared<RolloutBenchArgs>();
  parser.add_option("--model", args->dir, "model folder or checkpoint")->required();
  parser.add_option("--streams", args->streams, "numbers of concurrent requests, such as 1,4,16")
      ->delimiter(',')
      ->capture_default_str();
  parser.add_option("--prompt-tokens", args->prompt_tokens, "prompt length for the prefill figure")
      ->capture_default_str();
  parser.add_option("--new-tokens", args->new_tokens, "number of tokens that each stream decodes")
      ->capture_default_str();
  parser.add_option("--repeat", args->repeat, "rounds; every figure is their median")->capture_default_str();
  AddThreads(parser, args->threads, "compute threads; 0: all cores");
  return [args] { return BenchRollout(*args, std::cout, std::cerr); };
}

Command::Run DeclareBenchSpeculation(CLI::App& parser) {
  const auto args = std::make_shared<SpeculationBenchArgs>();
  parser.add_option("--model", args->dir, "model folder or checkpoint; default: random weights of 32.0M parameters");
  parser.add_option("--batches", args->batches, "numbers of concurrent requests, such as 1,8,64")
      ->delimiter(',')
      ->capture_default_str();
  parser.add_option("--prompt-tokens", args->prompt_tokens, "prompt length")->capture_default_str();
  parser.add_option("--new-tokens", args->new_tokens, "tokens that each request samples")->capture_default_str();
  parser.add_option("--turns", args->turns, "pairs of rounds per figure")->capture_default_str();
  parser.add_option("--alike-temperature", args->alike_temperature, "temperature for repetitive text")
      ->capture_default_str();
  AddThreads(parser, args->threads, "compute threads; 0: all cores");
  return [args] { return BenchSpeculation(*args, std::cout, std::cerr); };
}

Command::Run DeclareBenchKv(CLI::App& parser) {
  const auto args = std::make_shared<KvBenchArgs>();
  parser.add_option("folder", args->folder, "directory on the file system to measure")->required();
  parser.add_option("--model", args->model, "model folder or checkpoint; default: random weights");
  parser.add_option("--prompts", args->prompts, "prompt lengths, ascending, such as 256,1024")
      ->delimiter(',')
      ->capture_default_str();
  parser.add_option("--chunk-tokens", args->chunk_tokens, "rollout.kv_store.chunk_tokens")->capture_default_str();
  parser.add_option("--repeat", args->repeat, "rounds; every figure is their median")->capture_default_str();
  AddThreads(parser, args->threads, "compute threads per engine; 0: all cores");
  return [args] { return BenchKv(*args, std::cout, std::cerr); };
}

Command::Run DeclareBenchTree(CLI::App& parser) {
  struct Args {
    trainer::TreeBenchOptions options;
    int threads = 0;
  };
  const auto args = std::make_shared<Args>();
  trainer::TreeBenchOptions& options = args->options;
  parser.add_option("--shape", options.shapes, "a named shape (repeatable); default: all")->allow_extra_args(false);
  parser
      .add_option("--scale", options.scale, "scale factor for the shape's lengths; 0: the largest that fits --seconds")
      ->capture_default_str();
  parser.add_option("--seconds", options.seconds, "maximum predicted time per shape, if --scale is not given")
      ->capture_default_str();
  parser.add_option("--repeat", options.rounds, "rounds; every figure is their median")->capture_default_str();
  parser.add_option("--dtype", options.dtype, "type of the model")->type_name("{fp32,bf16}")->capture_default_str();
  parser.add_option("--hidden", options.hidden, "the model's hidden size")->capture_default_str();
  parser.add_option("--intermediate", options.intermediate, "the model's MLP size")->capture_default_str();
  parser.add_option("--layers", options.layers, "the model's layers")->capture_default_str();
  parser.add_option("--heads", options.heads, "attention heads")->capture_default_str();
  parser.add_option("--kv-heads", options.kv_heads, "key and value heads")->capture_default_str();
  parser.add_option("--head-dim", options.head_dim, "size of a head")->capture_default_str();
  parser.add_option("--vocab", options.vocab, "size of the vocabulary")->capture_default_str();
  parser.add_option("--micro-batch-tokens", options.micro_batch_tokens, "maximum number of rows per part")
      ->capture_default_str();
  parser.add_flag("--checkpoint-layers", options.checkpoint_layers,
                  "keep only layer inputs, and recompute layers in the backward pass");
  parser.add_flag("--recompute-prefix", options.recompute_prefix, "recompute parts that later parts attend to");
  parser.add_flag("!--no-baselines", options.baselines, "run only the tree, without baselines");
  AddThreads(parser, args->threads, "compute threads; 0: torch's default");
  return [args] { return BenchTree(args->options, args->threads, std::cout, std::cerr); };
}

Command::Run DeclareBenchSandbox(CLI::App& parser) {
  const auto args = std::make_shared<SandboxBenchArgs>();
  parser.add_option("--starts", args->starts, "number of starts per method and round")->capture_default_str();
  parser.add_option("--repeat", args->rounds, "rounds; every figure is their median")->capture_default_str();
  AddThreads(parser, args->threads, "number of threads that start commands");
  parser.add_option("--idle", args->idle, "keep this many idle sandboxes open, and print their memory");
  parser.add_option("--isolation", args->isolation, "strongest isolation level to try")->capture_default_str();
  return [args] { return BenchSandbox(*args, std::cout, std::cerr); };
}

}  // namespace

std::vector<Command> BenchCommands() {
  return {
      {"simulate",
       "compare the orders in which batches take finished groups, in simulated time",
       DeclareSimulate,
       {{"router", "compare the ways to choose a call's engine, in simulated time", DeclareSimulateRouter}}},
      {"bench",
       "measure this machine, one JSON object per figure",
       nullptr,
       {{"attention", "tree attention, compared with torch's matrix product and attention", DeclareBenchAttention},
        {"rollout", "prefill and decoding of a model folder by the rollout engine", DeclareBenchRollout},
        {"speculation", "the rollout engine with and without speculative decoding", DeclareBenchSpeculation},
        {"kv", "a KV store in a directory: time to the first token with and without it, and the break-even",
         DeclareBenchKv},
        {"tree", "a whole training step with and without trees, compared with its theoretical bound", DeclareBenchTree},
        {"sandbox", "starting commands in sandboxes with this machine's strongest isolation level, compared with crun",
         DeclareBenchSandbox}},
       true},
  };
}

}  // namespace ingot::app
