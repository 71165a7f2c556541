// The options of agents, as a run's YAML sets them. Values only; recipe.h and runner.h use them. Their Bind functions
// declare each key with its meaning, bounds and choices.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "reward/verifier_options.h"

namespace ingot::base {
class Schema;
}

namespace ingot::agents {

// One command before or after the agent.
struct StepOptions {
  std::vector<std::string> command;
};

// A Model Context Protocol server (agents/mcp/mcp_servers.h): `command` over stdin and stdout, `url` over HTTP. Its name
// is unique in its recipe.
struct McpServerOptions {
  std::string name;
  std::vector<std::string> command;  // empty = a remote server, at `url`
  // With a command: where it listens inside the sandbox, next to the agent. Without: the address of a running server,
  // which sandboxes reach through Ingot. Empty = stdin and stdout.
  std::string url = {};
  std::map<std::string, std::string> headers = {};  // for a remote server Ingot adds them, outside the sandbox
  // Added to the variables that its scaffold passes on; with `url`, to the agent's.
  std::map<std::string, std::string> env;
  bool check_start = true;  // false = a server that does not answer is the agent's problem
  // A server over stdin that does not end with its input is ended after as many seconds.
  double start_timeout_s = 60;
};

// A program that runs next to the agent, such as an environment that the agent talks to. Its name is unique in its
// recipe.
struct ServiceOptions {
  std::string name;
  std::vector<std::string> command;
  std::string url;
  std::map<std::string, std::string> env = {};
  double start_timeout_s = 60;
};

// A recipe: how to run one kind of agent program. A template is text with these variables in it (sandbox/template.h):
//   ${base_url} ${api_key}          of the episode, as in OPENAI_BASE_URL and OPENAI_API_KEY
//   ${task} ${task.FIELD}           the task's line of the task file, and a field of it
//   ${json:task.FIELD}              the field as JSON, a string in quotation marks; any variable may stand there
//   ${task_id} ${episode_id}
//   ${workdir} ${home}              the episode's private folders
//   ${cwd}                          the folder in which ingot was started
//   ${mcp.servers} ${mcp.gemini} ${mcp.opencode} ${mcp.codex}   the servers of `mcp`, as configuration files name them
struct RecipeOptions {
  std::string name = "default";  // unique, not empty
  double weight = 1;
  std::vector<std::string> domains;
  std::vector<std::string> command;  // runs in ${workdir}; not empty
  // Added to HOME, TMPDIR, OPENAI_BASE_URL, OPENAI_API_KEY, INGOT_EPISODE_ID, INGOT_TASK_ID and INGOT_PURPOSE; a variable
  // of the same name replaces the built-in one.
  std::map<std::string, std::string> env;
  std::vector<std::string> inherit_env = {"PATH", "LANG", "LC_ALL", "TZ"};
  // Made before set-up. Content that begins with "#!" becomes executable.
  std::map<std::string, std::string> files;
  std::vector<McpServerOptions> mcp;
  std::vector<ServiceOptions> services;  // they start after set-up, in this order; the sandbox needs its own network
  // The image's commands see themselves as root, and run in the image's working folder (sandbox/image/image.h). Empty =
  // the machine's programs.
  std::string image;
  std::string work_at;             // needs isolation level `namespaces`
  std::vector<StepOptions> setup;  // in order, with the agent's environment; one that fails, fails the episode
  // They run however agent and verifier ended. Their failures are logged and do not change the episode.
  std::vector<StepOptions> cleanup;
  double timeout_s = 600;
  double setup_timeout_s = 60;
  double cleanup_timeout_s = 10;  // at most 1 while the runner stops
  int64_t max_output_bytes = 1 << 20;
  int64_t memory_limit_bytes = 0;
  int64_t max_open_files = 0;
  int64_t cpu_limit_s = 0;
  int64_t max_file_bytes = 0;
  int32_t max_concurrent = 0;
  std::string answer_from = "stdout";
  std::string answer_file;
  std::string on_crash = "fail";  // also of an agent that dies of a signal; "zero" only if it has posted no reward
  std::string on_timeout = "fail";
  std::string on_flood = "fail";
  bool resumes = false;                   // only such a recipe's episodes branch (BranchingOptions)
  std::string verifier_sandbox = "auto";  // agents/verifier_sandbox.h
  // With stdout.txt, stderr.txt and failure.txt next to the agent's home/ and work/, up to the runner's keep_failed_max.
  bool keep_failed = false;
  reward::VerifierOptions verifier;

  absl::Status Validate() const;
};

// "/tmp/ingot-work-UID": one for each user of a machine, since only its owner may write in it.
std::string DefaultWorkRoot();

// Branching rollouts (docs/guide/branching.md).
struct BranchingOptions {
  int32_t at = 0;  // >= 1 with a width
  int32_t width = 0;
};

struct RunnerOptions {
  int32_t concurrency = 16;  // each episode takes a thread, which waits for its agent's processes
  std::vector<RecipeOptions> recipes;
  // Made if missing. Folders that a killed run left in it are removed at the start.
  std::string work_root = DefaultWorkRoot();
  std::string image_store;
  std::vector<std::string> image_build_hosts;  // sandbox/egress/egress_list.h
  // A path that a recipe itself names is not held to them (sandbox/image/image_source.h).
  std::vector<std::string> image_folders;
  double backoff_initial_s = 0.02;  // doubles each time
  double backoff_max_s = 1;         // even if a rejection names a longer one
  double report_retry_s = 30;
  double stop_timeout_s = 10;
  int32_t keep_failed_max = 20;  // folders of later episodes are removed
  BranchingOptions branching = {};
  int32_t max_snapshots = 4096;

  absl::Status Validate() const;
};

void Bind(base::Schema& schema, StepOptions& options);
void Bind(base::Schema& schema, McpServerOptions& options);
void Bind(base::Schema& schema, ServiceOptions& options);
void Bind(base::Schema& schema, RecipeOptions& options);
void Bind(base::Schema& schema, BranchingOptions& options);
void Bind(base::Schema& schema, RunnerOptions& options);

// The folder of images.
std::string ImageStoreOf(const RunnerOptions& options);

}  // namespace ingot::agents
