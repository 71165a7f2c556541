#include "app/slurm.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "app/run_roles.h"
#include "app/shell_word.h"

namespace ingot::app {
namespace {

bool Trains(const NodeGroup& group) {
  return std::find(group.roles.begin(), group.roles.end(), "trainer") != group.roles.end();
}

void AppendOptions(const std::vector<std::string>& options, std::string& text) {
  for (const std::string& option : options) absl::StrAppend(&text, "#SBATCH ", option, "\n");
}

// Whether the groups ask for different nodes, so that the job is heterogeneous.
bool Mixed(const std::vector<NodeGroup>& groups) {
  return std::any_of(groups.begin(), groups.end(), [](const auto& group) { return !group.slurm.empty(); });
}

// Where the script writes its exit code.
std::string ExitFile(const SlurmScript& script) { return script.folder + "/launch.exit"; }

// The state of a job among lines of "ID STATE"; a part of a heterogeneous one is ID+I. Empty = it is over.
std::string StateOf(const std::string& lines, const std::string& job) {
  std::istringstream rest(lines);
  for (std::string id, state; rest >> id >> state;) {
    if (id.substr(0, id.find('+')) == job) return state;
  }
  return "";
}

}  // namespace

std::string RenderSlurm(const SlurmScript& script) {
  const std::vector<NodeGroup>& groups = script.groups;
  const bool mixed = Mixed(groups);
  const auto warning = std::min<int64_t>(static_cast<int64_t>(std::ceil(script.drain_s)) + 30, 65535);
  std::string text = absl::StrCat("#!/bin/bash\n#SBATCH --job-name=ingot-", script.name,
                                  "\n#SBATCH --requeue\n#SBATCH --open-mode=append\n#SBATCH --signal=B:TERM@", warning,
                                  "\n#SBATCH --output=", script.folder, "/logs/slurm.log\n");
  int nodes = 0;
  std::string steps;
  for (size_t i = 0; i < groups.size(); ++i) {
    const NodeGroup& group = groups[i];
    if (mixed) {
      absl::StrAppend(&text, i == 0 ? "" : "#SBATCH hetjob\n", "#SBATCH --nodes=", group.nodes,
                      "\n#SBATCH --ntasks-per-node=1\n#SBATCH --no-kill\n");
      AppendOptions(script.options, text);
      AppendOptions(group.slurm, text);
    }
    absl::StrAppend(&steps, "srun ", mixed ? absl::StrCat("--het-group=", i) : absl::StrCat("--relative=", nodes),
                    " --nodes=", group.nodes, " --ntasks=", group.nodes,
                    " --ntasks-per-node=1 --no-kill --kill-on-bad-exit=0 -W0 --label \\\n  ", Quoted(script.binary),
                    " node ", Quoted(script.folder + "/config.yaml"), " --group ", Quoted(group.name), " --resume &\n",
                    Trains(group) ? "deciding=$!\n" : "");
    nodes += group.nodes;
  }
  if (!mixed) {
    absl::StrAppend(&text, "#SBATCH --nodes=", nodes, "\n#SBATCH --ntasks-per-node=1\n#SBATCH --no-kill\n");
    AppendOptions(script.options, text);
  }
  const std::string exit_file = Quoted(ExitFile(script));
  absl::StrAppend(&text, "\nrm -f ", exit_file, "\n", steps, R"(
# Tells every node's agent to stop in order. Slurm signals this shell before the time limit, and every process of a step:
# the roles ignore SIGINT, and their agent stops them.
stop() { scancel --signal=INT "$SLURM_JOB_ID"; }
trap stop TERM
code=0
while kill -0 "$deciding" 2>/dev/null; do wait "$deciding"; code=$?; done
stop
wait
echo "$code" > )",
                  exit_file, "\nexit \"$code\"\n");
  return text;
}

absl::Status CheckSlurm(const std::vector<NodeGroup>& groups, const RunCommand& run) {
  if (!Mixed(groups)) return absl::OkStatus();
  INGOT_ASSIGN_OR_RETURN(const std::string settings, run({"scontrol", "show", "config"}));
  std::istringstream lines(settings);
  for (std::string key, equals, value; lines >> key;) {
    if (key != "SchedulerType") continue;
    if (!(lines >> equals >> value) || value == "sched/backfill") break;
    return absl::FailedPreconditionError(absl::StrCat("this Slurm takes no heterogeneous jobs (its SchedulerType is ",
                                                      value,
                                                      ", and they need sched/backfill), and groups of cluster.groups "
                                                      "have options of their own (slurm): give all nodes "
                                                      "the same ones in cluster.slurm"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> SubmitSlurm(const std::string& path, const RunCommand& run) {
  INGOT_ASSIGN_OR_RETURN(const std::string answer, run({"sbatch", "--parsable", path}));
  const std::string job = answer.substr(0, answer.find_first_of(";\n"));
  if (!job.empty() && job.find_first_not_of("0123456789") == std::string::npos) return job;
  return absl::UnavailableError(absl::StrCat("sbatch names no job: ", answer));
}

SlurmLauncher::SlurmLauncher(SlurmScript script, JobOptions options, std::string job)
    : JobLauncher(std::move(options)), script_(std::move(script)), job_(std::move(job)) {}

absl::Status SlurmLauncher::Start() {
  INGOT_ASSIGN_OR_RETURN(
      job_, SubmitSlurm(script_.folder + "/launch.sbatch", [this](const auto& argv) { return Run(argv); }));
  return absl::OkStatus();
}

absl::Status SlurmLauncher::Stop() {
  INGOT_RETURN_IF_ERROR(Run({"scancel", "--signal=INT", job_}).status());
  // A job that waits in the queue has no task to signal.
  return last_ == "PENDING" ? Run({"scancel", job_}).status() : absl::OkStatus();
}

std::string SlurmLauncher::Advice() const {
  return absl::StrCat("`scontrol show job ", job_, "` and ", script_.folder, "/logs/slurm.log may tell why");
}

absl::StatusOr<JobLauncher::State> SlurmLauncher::Look() {
  INGOT_ASSIGN_OR_RETURN(const std::string listed, Run({"squeue", "--noheader", "--me", "--format=%i %T"}));
  last_ = StateOf(listed, job_);
  State state{last_, last_.empty(), std::nullopt};
  if (int code = -1; state.over && std::ifstream(ExitFile(script_)) >> code) state.code = code;
  return state;
}

}  // namespace ingot::app
