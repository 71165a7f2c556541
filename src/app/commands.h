// The commands of the command line, as functions. Every command returns the process's exit code: 0 = done, 1 = the run
// or request failed, 2 = the command line or the configuration is wrong. Errors go to stderr, one line each.
#pragma once

#include <string>
#include <vector>

namespace ingot::app {

struct RunArgs {
  std::string config;                  // run.yaml
  std::vector<std::string> overrides;  // KEY=VALUE
  bool resume = false;
  int token_fd = -1;  // descriptor with the run's token (run_secrets.h); -1 = cluster.token_file names it
};

int Train(const RunArgs& args);
// Runs one role of a run as this process: gateway, rollout, datapool, scheduler, trainer or agents. `index`: number of
// the engine, or rank of the trainer. `supervised`: `ingot launch` started this process and tells it when to end.
int RunRole(const std::string& role, const RunArgs& args, int index, bool supervised);

struct LaunchArgs {
  RunArgs run;
  bool dry_run = false;  // prints what would be started
};
int Launch(const LaunchArgs& args);

struct NodeArgs {
  RunArgs run;
  std::string group;  // of cluster.groups
  int node = -1;      // within the group; -1 = SLURM_NODEID, or 0
};
// Runs the roles of one node of a run, and restarts them.
int RunNode(const NodeArgs& args);
int ShowStatus(const RunArgs& args);
int Evaluate(const std::string& checkpoint, const RunArgs& args);

struct ServeArgs {
  std::string model_dir;
  std::string host = "127.0.0.1";
  int port = 8000;
  std::string tls_certificate, tls_key;  // PEM files; empty = plain text, on loopback only unless allow_plaintext
  bool allow_plaintext = false;
  std::string model_name;             // empty = the folder's name
  std::vector<std::string> also;      // NAME=DIR: further models, each with an engine of its own; the same tokenizer
  std::vector<std::string> adapters;  // NAME=DIR: PEFT adapters of the model, all in its engine
  // Port of the engine's gRPC service (proto/rollout.proto: token ids in and out), for the gateways of runs; 0 = a free
  // one, -1 = no such service.
  int rollout_port = -1;
  std::string token_file;           // file with the token that this service asks for
  std::string chat_format;          // empty = auto (text_parts.h)
  int max_tokens = 0;               // of an answer; 0 = as many as the context has room for
  int64_t kv_cache_tokens = 65536;  // also bounds the context
  std::string script;               // file with the calls' answers (gateway/script.h); empty = the model samples them
  std::string metrics_socket;       // file of a socket that serves /metrics to this user; empty = none
  std::string record;               // folder that stores every call (served_record.h); empty = calls are not stored
  int threads = 0;                  // 0 = all cores
  std::string device = "auto";
};
int Serve(const ServeArgs& args);

struct InspectArgs {
  std::string run_dir;
  std::string episode;  // id or group/sample; empty = a list
  int limit = 20;
  bool json = false;
  bool journal = false;  // the run's journal, one JSON record per line
};
int Inspect(const InspectArgs& args);

struct RegradeArgs {
  std::string run_dir;
  std::vector<std::string> overrides;  // KEY=VALUE, such as rewards.terms=[...]
  bool json = false;
};
int Regrade(const RegradeArgs& args);

struct ExportArgs {
  std::string run_dir;
  std::string out;         // a JSONL file, replaced
  std::string as = "sft";  // or "dpo"
  double above = 0.5;      // an episode is correct if its outcome is above it
  bool shortest = false;   // sft: of each group the shortest correct episode alone
};
int Export(const ExportArgs& args);

int ConfigCheck(const RunArgs& args);
int ConfigExplain(const std::string& key);

}  // namespace ingot::app
