// The options of agents, as a run's YAML sets them. Values only; recipe.h and runner.h use them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "reward/verifier.h"

namespace ingot::agents {

// One command before or after the agent.
struct StepOptions {
  // argv, each a template.
  std::vector<std::string> command;
};

// A Model Context Protocol server (agents/mcp/mcp_servers.h): `command` over stdin and stdout, `url` over HTTP.
struct McpServerOptions {
  // Letters, digits, '-' and '_'. Unique in its recipe.
  std::string name;
  // argv, each a template. Empty: a remote server, at `url`.
  std::vector<std::string> command;
  // A template. With a command: "http://127.0.0.1:PORT/PATH", where the command listens inside the sandbox; it runs
  // next to the agent. Without: the address of a running server, which sandboxes reach through Ingot. Empty = stdin and
  // stdout.
  std::string url = {};
  // Headers (templates) of requests to `url`. For a remote server Ingot adds them, outside the sandbox.
  std::map<std::string, std::string> headers = {};
  // Environment variables (templates), added to the ones that its scaffold passes on; with `url`, to the agent's.
  std::map<std::string, std::string> env;
  // True: the server must answer before the agent starts, or the episode fails as infrastructure. False: a server that
  // does not answer is the agent's problem.
  bool check_start = true;
  // Seconds until it must have answered, > 0. A server over stdin that does not end with its input is ended then.
  double start_timeout_s = 60;
};

// A program that runs next to the agent, such as an environment that the agent talks to.
struct ServiceOptions {
  // Letters, digits, '-' and '_'. Unique in its recipe.
  std::string name;
  // argv, each a template. It listens inside the sandbox, and ends with the agent.
  std::vector<std::string> command;
  // A template: "http://127.0.0.1:PORT/PATH" inside the sandbox. The agent starts once a GET of it is answered with a
  // status below 500.
  std::string url;
  // Environment variables (templates), added to the agent's.
  std::map<std::string, std::string> env = {};
  // Seconds until it must have answered, > 0.
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
  // The scaffold, in metrics and in the recorded episodes. Unique, not empty.
  std::string name = "default";
  // Share of the episodes, relative to the other recipes' weights; > 0.
  double weight = 1;
  // The domains whose tasks this recipe runs, shared by weight with the other recipes that name them. Empty = tasks of
  // every domain that no recipe names.
  std::vector<std::string> domains;
  // argv of the agent, each a template; runs in ${workdir}. Not empty.
  std::vector<std::string> command;
  // Environment variables (templates), added to HOME, TMPDIR, OPENAI_BASE_URL, OPENAI_API_KEY, INGOT_EPISODE_ID,
  // INGOT_TASK_ID and INGOT_PURPOSE; a variable of the same name replaces the built-in one.
  std::map<std::string, std::string> env;
  // Names of variables that agents inherit from ingot's own environment, if set.
  std::vector<std::string> inherit_env = {"PATH", "LANG", "LC_ALL", "TZ"};
  // Files made in ${workdir} before set-up: relative path to template of the content. Content that begins with "#!"
  // becomes executable.
  std::map<std::string, std::string> files;
  // MCP servers of the agent. They run in the episode's sandbox and end with it.
  std::vector<McpServerOptions> mcp;
  // Programs of the episode next to its agent. They start after set-up, in this order. The sandbox needs its own
  // network.
  std::vector<ServiceOptions> services;
  // The image whose files are the sandbox's root (sandbox/image/image.h), a template, such as "${task.image}". Its
  // commands see themselves as root, and run in the image's working folder. Empty = the machine's programs.
  std::string image;
  // A second path of ${workdir} in the sandbox: empty, or /app, where Harbor's tasks without an image have their files.
  // Needs isolation level `namespaces`.
  std::string work_at;
  // Commands that run before the agent, in order, with its environment. A command that does not exit with 0 fails the
  // episode.
  std::vector<StepOptions> setup;
  // Commands that run after the agent and the verifier, however they ended. Their failures are logged and do not
  // change the episode.
  std::vector<StepOptions> cleanup;
  // Seconds that the agent may run, > 0.
  double timeout_s = 600;
  // Seconds that each set-up command may run, > 0.
  double setup_timeout_s = 60;
  // Seconds that each clean-up command may run, > 0; at most 1 while the runner stops.
  double cleanup_timeout_s = 10;
  // Bytes of stdout and stderr together, > 0; an agent that writes more is killed.
  int64_t max_output_bytes = 1 << 20;
  // Address space of each of its processes, in bytes; 0 = no limit.
  int64_t memory_limit_bytes = 0;
  // Open descriptors of each of its processes; 0 = no limit.
  int64_t max_open_files = 0;
  // CPU seconds of each of its processes; 0 = no limit.
  int64_t cpu_limit_s = 0;
  // Bytes of any file that it writes; 0 = no limit.
  int64_t max_file_bytes = 0;
  // Episodes of this recipe at a time; 0 = as many as the runner has slots.
  int32_t max_concurrent = 0;
  // The place of the agent's answer: "stdout" (its last line that is not blank) or "file".
  std::string answer_from = "stdout";
  // For answer_from "file": the path, relative to ${workdir}.
  std::string answer_file;
  // The episode's fate if the agent exits with a code other than 0 or dies of a signal: "fail" (a new attempt is made),
  // "zero" (reward 0, if the agent has posted none), or "verify" (its answer is scored as if the agent had succeeded).
  std::string on_crash = "fail";
  // The fate if the agent runs past timeout_s.
  std::string on_timeout = "fail";
  // The fate if the agent writes more than max_output_bytes.
  std::string on_flood = "fail";
  // True: an agent started on a fork of another agent's ${workdir} and HOME resumes where that agent stopped, such as
  // from its last session. Only such a recipe's episodes branch (BranchingOptions).
  bool resumes = false;
  // The sandbox of a verifier that runs a program among the agent's files (agents/verifier_sandbox.h): "agent" = the
  // agent's own, "changed" = a new one with all files that the agent left, "pristine" = a new one whose image is as it
  // was but for the work folder, "auto" = "pristine" for harbor, "agent" for command.
  std::string verifier_sandbox = "auto";
  // True: the folder of a failed episode stays, with stdout.txt, stderr.txt and failure.txt next to the agent's home/
  // and work/, up to the runner's keep_failed_max.
  bool keep_failed = false;
  // The verifier, which scores the outcome.
  reward::VerifierOptions verifier;

  absl::Status Validate() const;
};

// "/tmp/ingot-work-UID": one for each user of a machine, since only its owner may write in it.
std::string DefaultWorkRoot();

// Branching rollouts (docs/guide/branching.md).
struct BranchingOptions {
  int32_t at = 0;     // calls of a trunk before it is forked, >= 1 with a width
  int32_t width = 0;  // leaves of each trunk: 2 or more, a divisor of scheduler.group_size; 0 = episodes do not branch
};

struct RunnerOptions {
  // Episodes at a time, in [1, 4096]; each takes a thread, which waits for its agent's processes.
  int32_t concurrency = 16;
  // The kinds of agents; empty = the runner starts none, and agents from elsewhere open their episodes.
  std::vector<RecipeOptions> recipes;
  // The parent of the episodes' private folders, on a local disk; made if missing. Folders that a killed run left in it
  // are removed at the start.
  std::string work_root = DefaultWorkRoot();
  // Where recipes' images are unpacked; "" = WORK_ROOT/images.
  std::string image_store;
  // "HOST:PORT" that builds of Dockerfiles may reach (sandbox/egress/egress_list.h); empty = none.
  std::vector<std::string> image_build_hosts;
  // Folders with images that the data of a task may name (sandbox/image/image_source.h). A path that a recipe itself
  // names is not held to them.
  std::vector<std::string> image_folders;
  // Seconds until a rejected admission is requested again, > 0, if the rejection names no time; doubles each time.
  double backoff_initial_s = 0.02;
  // The longest of these waits, in seconds, even if a rejection names a longer one; >= backoff_initial_s.
  double backoff_max_s = 1;
  // Seconds for which a reward or an end is retried while the gateway cannot be reached; 0 = no retry.
  double report_retry_s = 30;
  // Seconds that Stop waits for the slots, > 0.
  double stop_timeout_s = 10;
  // Folders of failed episodes that stay (recipes with keep_failed); folders of later episodes are removed.
  int32_t keep_failed_max = 20;
  BranchingOptions branching = {};
  // Snapshots held at a time, >= 1.
  int32_t max_snapshots = 4096;

  absl::Status Validate() const;
};

// The folder of images.
std::string ImageStoreOf(const RunnerOptions& options);

}  // namespace ingot::agents
