// What a run's YAML says about agents. Values only; recipe.h and runner.h use them.
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

// How to run one kind of agent program. A "template" below is text with these variables in it (sandbox/template.h):
//   ${base_url} ${api_key}          of the episode, as in OPENAI_BASE_URL and OPENAI_API_KEY
//   ${task} ${task.FIELD}           the task's line of the task file, and a field of it
//   ${json:task.FIELD}              the same as JSON, a string in quotation marks (any variable goes so)
//   ${task_id} ${episode_id}
//   ${workdir} ${home}              the episode's private folders
//   ${cwd}                          the folder ingot was started in
struct RecipeOptions {
  // The scaffold, in metrics and in the recorded episodes. Unique, not empty.
  std::string name = "default";
  // Share of the episodes, relative to the other recipes' weights; > 0.
  double weight = 1;
  // argv of the agent, each a template; runs in ${workdir}. Not empty.
  std::vector<std::string> command;
  // Environment variables (templates), added to HOME, TMPDIR, OPENAI_BASE_URL, OPENAI_API_KEY, INGOT_EPISODE_ID,
  // INGOT_TASK_ID and INGOT_PURPOSE; one of the same name replaces it.
  std::map<std::string, std::string> env;
  // Names of variables taken over from ingot's own environment, where they are set.
  std::vector<std::string> inherit_env = {"PATH", "LANG", "LC_ALL", "TZ"};
  // Files made in ${workdir} before set-up: relative path to template of the content. "#!" in front: executable.
  std::map<std::string, std::string> files;
  // Commands run before the agent, in order, with its environment; one that does not exit with 0 fails the episode.
  std::vector<StepOptions> setup;
  // Commands run after the agent and the verifier, however they ended; what they do is logged and changes nothing.
  std::vector<StepOptions> cleanup;
  // Seconds the agent may run, > 0.
  double timeout_s = 600;
  // Seconds each set-up command may run, > 0.
  double setup_timeout_s = 60;
  // Seconds each clean-up command may run, > 0; at most 1 while the runner stops.
  double cleanup_timeout_s = 10;
  // Bytes of stdout and stderr together, > 0; an agent that writes more is killed.
  int64_t max_output_bytes = 1 << 20;
  // Address space of each of its processes, in bytes; 0: no limit.
  int64_t memory_limit_bytes = 0;
  // Open descriptors of each of its processes; 0: no limit.
  int64_t max_open_files = 0;
  // CPU seconds of each of its processes; 0: no limit.
  int64_t cpu_limit_s = 0;
  // Bytes of any file it writes; 0: no limit.
  int64_t max_file_bytes = 0;
  // Episodes of this recipe at a time; 0: as many as the runner has slots.
  int32_t max_concurrent = 0;
  // Where the answer stands when the agent has ended: "stdout" (its last line that is not blank) or "file".
  std::string answer_from = "stdout";
  // answer_from "file": its path, relative to ${workdir}.
  std::string answer_file;
  // What an agent that exits with another code than 0, or dies of a signal, makes of its episode: "fail" (a new attempt
  // is made), "zero" (reward 0), or "verify" (its answer is scored as if nothing had happened).
  std::string on_crash = "fail";
  // The same for an agent that runs past timeout_s.
  std::string on_timeout = "fail";
  // The same for an agent that writes more than max_output_bytes.
  std::string on_flood = "fail";
  // Keep the folder of a failed episode, with stdout.txt, stderr.txt and failure.txt beside the agent's home/ and work/
  // (up to keep_failed_max of the runner).
  bool keep_failed = false;
  // How the outcome is scored.
  reward::VerifierOptions verifier;

  absl::Status Validate() const;
};

// "/tmp/ingot-work-UID": each user of a machine has one of their own, since only its owner may write in it.
std::string DefaultWorkRoot();

struct RunnerOptions {
  // Episodes at a time, in [1, 4096]: each is a thread that waits for its agent's processes.
  int32_t concurrency = 16;
  // The kinds of agents; empty: none is run here, they come from elsewhere.
  std::vector<RecipeOptions> recipes;
  // Folder of the episodes' private folders, on a local disk; made if missing. Folders that a killed run left in it are
  // removed at start.
  std::string work_root = DefaultWorkRoot();
  // Seconds until a refused admission is asked for again, if the refusal names no time; doubles with each refusal. > 0.
  double backoff_initial_s = 0.02;
  // Longest of these waits, a time named by the refusal included; >= backoff_initial_s.
  double backoff_max_s = 1;
  // Seconds an unreachable gateway is asked again to take a reward or an end; 0: once only.
  double report_retry_s = 30;
  // Seconds Stop waits for the slots, > 0.
  double stop_timeout_s = 10;
  // Folders of failed episodes kept (recipes with keep_failed); later ones are removed.
  int32_t keep_failed_max = 20;

  absl::Status Validate() const;
};

}  // namespace ingot::agents
