// The commands of the command line, as functions. Every command returns the process's exit code: 0 = done, 1 = the run
// or request failed, 2 = the command line or the configuration is wrong. Errors go to stderr, one line each.
#pragma once

#include <cstdint>
#include <optional>
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
  int node = -1;      // within the group; -1 = the launcher's variable (node.cc), or 0
  std::string probe;  // alive or ready: asks the node's agent instead; empty = runs it
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
  std::vector<std::string> allow_hosts, allow_origins;  // http::Options'
  std::string model_name;                               // empty = the folder's name
  std::vector<std::string> also;      // NAME=DIR: further models, each with an engine of its own; the same tokenizer
  std::vector<std::string> adapters;  // NAME=DIR: PEFT adapters of the model, all in its engine
  // Jinja file in place of the folder's templates; empty = the folder's own.
  std::string chat_template;
  // NAME=VALUE: variables of the chat template for all requests; VALUE is read by base::WordValue.
  std::vector<std::string> template_variables;
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

struct CollectArgs {
  RunArgs run;
  std::string checkpoint;  // model folder; empty = the configuration's own model
  std::string model;       // an external model of gateway.models, asked in place of it; empty = none
  std::string script;      // file with the calls' answers (gateway/script.h); empty = a model samples them
  int samples = 10;        // of each task
  double temperature = 1;
};
int Collect(const CollectArgs& args);

struct InspectArgs {
  std::string run_dir;
  std::string episode;       // id or group/sample; empty = a list
  std::optional<int> limit;  // episodes of each kind; 0 = all. Empty = 20 of the list for people, all as JSON
  bool json = false;
  bool journal = false;  // the run's journal, one JSON record per line
};
int Inspect(const InspectArgs& args);

struct ViewArgs {
  std::string run_dir;
  std::string host = "127.0.0.1";
  int port = 0;                          // 0 = a free one
  std::string tls_certificate, tls_key;  // PEM files; empty = those of the run's configuration
  bool allow_plaintext = false;          // on an address other than loopback; the configuration may allow it too
  std::vector<std::string> allow_hosts, allow_origins;  // http::Options', beside the configuration's
  bool files = false;                                   // also beside a process that serves the run's page
};
int View(const ViewArgs& args);

struct ReportArgs {
  std::string run_dir;
  // The HTML file, replaced. Empty = NAME.html in the current folder; replaced if it is an earlier report of the same run.
  std::string out;
};
int Report(const ReportArgs& args);

struct CompareArgs {
  std::vector<std::string> run_dirs;
  std::string html;  // file for the curves, replaced; empty = the table alone
};
int Compare(const CompareArgs& args);

struct RegradeArgs {
  std::string run_dir;
  std::vector<std::string> overrides;  // KEY=VALUE, such as rewards.terms=[...]
  bool json = false;
};
int Regrade(const RegradeArgs& args);

struct RetrainArgs {
  std::string run_dir;  // whose stored batches are trained on
  RunArgs run;
  int64_t steps = 0;  // greatest number of steps; 0 = as many as are stored
};
int Retrain(const RetrainArgs& args);

struct ExportArgs {
  std::string run_dir;
  std::string out;         // a JSONL file, replaced
  std::string as = "sft";  // or "dpo", or "atif"
  double above = 0.5;      // an episode is correct if its outcome is above it
  bool shortest = false;   // sft: of each group the shortest correct episode alone
  // sft: the signal that is an episode's recall; empty = the outcome decides. From `recall_high` on all episodes are kept,
  // below it in proportion, and those of recall 0 up to `zero_share` of the kept ones.
  std::string recall;
  double recall_high = 0.8;
  double zero_share = 0.05;
};
int Export(const ExportArgs& args);

struct ImportArgs {
  RunArgs run;                     // names the run folder, tokenizer and chat format
  std::vector<std::string> files;  // ATIF: a JSON object each, or JSON lines
};
int Import(const ImportArgs& args);

struct TasksRateArgs {
  std::string run_dir;  // of `ingot collect`, or of a training run
  std::string out;      // JSON lines: the tasks with their pass rate
  double above = 0.5;   // an outcome above it is a success
  std::string field = "pass_rate";
};
int TasksRate(const TasksRateArgs& args);

struct TasksFilterArgs {
  std::string tasks;    // JSON lines
  std::string out;      // the tasks that stay
  std::string rated;    // run folder with tries of the tasks; empty = their field pass_rate, where they have it
  std::string guesses;  // run folder with tries without reasoning; empty = none
  int guess = 8;        // tries of it that count
  double above = 0.5;   // an outcome above it is a success
  double min_rate = 0;  // at or below it a task is impossible
  double max_rate = 1;  // at or above it a task is trivial
  bool formats = true;  // drop multiple choice, true or false, proofs
  std::string question_field = "question", answer_field = "answer", rate_field = "pass_rate";
};
int TasksFilter(const TasksFilterArgs& args);

struct TasksCasesArgs {
  std::string problems;  // JSON lines with cases and submissions
  std::string out;       // the problems that stay, with tests
  std::string work_root;
  int agreeing = 7, cases = 40, passing = 9;
  double timeout_s = 10;       // of one submission on one case
  int threads = 2;             // at a time
  bool allow_process = false;  // the isolation level `process` is wall enough
};
int TasksCases(const TasksCasesArgs& args);

int ConfigCheck(const RunArgs& args);
int ConfigExplain(const std::string& key);
int ConfigSchema();
// `config` empty = the defaults, with the overrides.
int Doctor(const RunArgs& args);
int Init(const std::string& folder);

}  // namespace ingot::app
