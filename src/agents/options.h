// Defines the agent options in a run's YAML. recipe.h and runner.h use them. The Bind functions declare each key with
// its meaning, bounds, and choices.
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

// A command that runs before or after the agent.
struct StepOptions {
  std::vector<std::string> command;
};

// A Model Context Protocol server (agents/mcp/mcp_servers.h): `command` over stdin and stdout, `url` over HTTP. Its
// name is unique in its recipe.
struct McpServerOptions {
  std::string name;
  std::vector<std::string> command;  // empty = a remote server at `url`
  // With a command: the URL where the server listens inside the sandbox, next to the agent. Without a command: the URL
  // of a running server, which sandboxes reach through Ingot. Empty = stdin and stdout.
  std::string url = {};
  std::map<std::string, std::string> headers = {};  // for a remote server; Ingot adds them outside the sandbox
  // Added to the variables that the scaffold passes to the server or, with `url`, to the agent's variables.
  std::map<std::string, std::string> env;
  bool check_start = true;  // false = a server that does not answer is the agent's problem
  // Also limits how long a stdin server may take to exit after its input ends. After that, it is killed.
  double start_timeout_s = 60;
};

// A program that runs next to the agent, such as an environment. Its name is unique in its recipe.
struct ServiceOptions {
  std::string name;
  std::vector<std::string> command;
  std::string url;
  std::map<std::string, std::string> env = {};
  double start_timeout_s = 60;
};

// A recipe defines how to run one kind of agent program. Templates may use these variables (sandbox/template.h):
//   ${base_url} ${api_key}          the episode's, as in OPENAI_BASE_URL and OPENAI_API_KEY
//   ${task} ${task.FIELD}           the task's line in the task file, and one of its fields
//   ${json:task.FIELD}              the field as JSON, such as a quoted string; works with any variable
//   ${task_id} ${episode_id}
//   ${workdir} ${home}              the episode's private folders
//   ${cwd}                          the directory where ingot was started
//   ${config_dir}                   the folder of the configuration file; replaced in all keys when the file is loaded
//   ${mcp.servers} ${mcp.gemini} ${mcp.opencode} ${mcp.codex}   the servers in `mcp`, for configuration files
struct RecipeOptions {
  std::string name = "default";  // unique, not empty
  double weight = 1;
  std::vector<std::string> domains;
  std::vector<std::string> command;  // runs in ${workdir}; not empty
  // Added to HOME, TMPDIR, OPENAI_BASE_URL, OPENAI_API_KEY, INGOT_EPISODE_ID, INGOT_TASK_ID, and INGOT_PURPOSE. A
  // variable with the same name replaces the built-in one.
  std::map<std::string, std::string> env;
  std::vector<std::string> inherit_env = {"PATH", "LANG", "LC_ALL", "TZ"};
  // Created before setup. A file whose content begins with "#!" becomes executable.
  std::map<std::string, std::string> files;
  std::vector<McpServerOptions> mcp;
  std::vector<ServiceOptions> services;  // started after setup, in this order; the sandbox needs its own network
  // Commands run as root (as seen inside the sandbox) in the image's working directory (sandbox/image/image.h). Empty =
  // use the machine's programs.
  std::string image;
  std::string work_at;             // requires isolation level `namespaces`
  std::vector<StepOptions> setup;  // run in order, with the agent's environment; if one fails, the episode fails
  // Run regardless of how the agent and the verifier ended. Failures are only logged.
  std::vector<StepOptions> cleanup;
  double timeout_s = 600;
  double setup_timeout_s = 60;
  double cleanup_timeout_s = 10;  // at most 1 while the runner is stopping
  int64_t max_output_bytes = 1 << 20;
  int64_t memory_limit_bytes = 0;
  int64_t max_open_files = 0;
  int64_t cpu_limit_s = 0;
  int64_t max_file_bytes = 0;
  int32_t max_concurrent = 0;
  std::string answer_from = "stdout";
  std::string answer_file;
  // Also applies to an agent that is killed by a signal. "zero" applies only if the agent has not posted a reward.
  std::string on_crash = "fail";
  std::string on_timeout = "fail";
  std::string on_flood = "fail";
  bool resumes = false;                   // only episodes with a recipe that resumes branch (BranchingOptions)
  std::string verifier_sandbox = "auto";  // agents/verifier_sandbox.h
  // Keeps stdout.txt, stderr.txt, and failure.txt next to the agent's home/ and work/, up to the runner's
  // keep_failed_max.
  bool keep_failed = false;
  reward::VerifierOptions verifier;

  absl::Status Validate() const;
};

// Returns "/tmp/ingot-work-UID". Each user has a separate folder because only its owner may write to it.
std::string DefaultWorkRoot();

// Configures branching rollouts (docs/guide/branching.md).
struct BranchingOptions {
  int32_t at = 0;  // >= 1 if width is set
  int32_t width = 0;
};

struct RunnerOptions {
  int32_t concurrency = 16;  // each episode uses a thread that waits for its agent's processes
  std::vector<RecipeOptions> recipes;
  // Created if missing. At startup, folders left by a killed run are removed.
  std::string work_root = DefaultWorkRoot();
  std::string image_store;
  std::vector<std::string> image_build_hosts;  // sandbox/egress/egress_list.h
  // Paths in the recipe itself are exempt (sandbox/image/image_source.h).
  std::vector<std::string> image_folders;
  double backoff_initial_s = 0.02;  // doubles after each attempt, up to backoff_max_s
  double backoff_max_s = 1;         // applies even if a rejection requests a longer wait
  double report_retry_s = 30;
  double stop_timeout_s = 10;
  int32_t keep_failed_max = 20;  // later episodes' folders are removed
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

// Returns the folder where images are stored.
std::string ImageStoreOf(const RunnerOptions& options);

}  // namespace ingot::agents
