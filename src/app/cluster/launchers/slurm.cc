#include "app/cluster/launchers/slurm.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "app/cluster/run_roles.h"
#include "app/terminal/shell_word.h"

namespace ingot::app {
namespace {

bool Trains(const NodeGroup& group) {
  return std::find(group.roles.begin(), group.roles.end(), "trainer") != group.roles.end();
}

void AppendOptions(const std::vector<std::string>& options, std::string& text) {
  for (const std::string& option : options) absl::StrAppend(&text, "#SBATCH ", option, "\n");
}

// Returns the sbatch options for the group's nodes only. Its own `slurm` options come last and take precedence.
std::vector<std::string> OwnOptions(const NodeGroup& group) {
  std::vector<std::string> own = SlurmResources(group).value_or(std::vector<std::string>());
  own.insert(own.end(), group.slurm.begin(), group.slurm.end());
  return own;
}

// Returns whether the groups request different nodes, which makes the job heterogeneous.
bool Mixed(const std::vector<NodeGroup>& groups) {
  return std::any_of(groups.begin(), groups.end(),
                     [&](const auto& group) { return OwnOptions(group) != OwnOptions(groups.front()); });
}

// Returns the number of CPUs in the last option that sets it, or empty if there is none.
std::string CpusOf(const std::vector<std::string>& options) {
  std::string cpus;
  for (const std::string& option : options) {
    for (const std::string prefix : {"--cpus-per-task=", "--cpus-per-task ", "-c"}) {
      if (!option.starts_with(prefix)) continue;
      cpus = option.substr(prefix.size());
      absl::StripAsciiWhitespace(&cpus);
      break;
    }
  }
  return cpus;
}

// Returns " --cpus-per-task=N", because srun does not inherit the number from sbatch.
std::string CpusOfStep(const NodeGroup& group, std::vector<std::string> options) {
  const std::vector<std::string> own = OwnOptions(group);
  options.insert(options.end(), own.begin(), own.end());
  const std::string cpus = CpusOf(options);
  return cpus.empty() ? "" : absl::StrCat(" --cpus-per-task=", cpus);
}

// The file where the script writes its exit code.
std::string ExitFile(const SlurmScript& script) { return script.folder + "/launch.exit"; }

// A line of squeue output.
struct JobLine {
  std::string id;       // without a heterogeneous job's part number
  std::string state;    // such as PENDING
  std::string reason;   // reason for the state; None = none
  std::string command;  // path of the script
};

// Returns this user's jobs. A heterogeneous job has one line per part, all with the same id.
absl::StatusOr<std::vector<JobLine>> ListJobs(const RunCommand& run) {
  INGOT_ASSIGN_OR_RETURN(const std::string listed, run({"squeue", "--noheader", "--me", "--format=%i|%T|%r|%o"}));
  std::vector<JobLine> jobs;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(listed, '\n', absl::SkipWhitespace()))) {
    std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits('|', 3));
    fields.resize(4);
    jobs.push_back({fields[0].substr(0, fields[0].find('+')), fields[1], fields[2], fields[3]});
  }
  return jobs;
}

// Returns "PENDING (Resources)"; empty = the job is over. Each part of a heterogeneous job has its own reason.
std::string StateOf(const std::vector<JobLine>& jobs, const std::string& id) {
  std::string state;
  std::vector<std::string> reasons;
  for (const JobLine& job : jobs) {
    if (job.id != id) continue;
    if (state.empty()) state = job.state;
    const bool reported = std::find(reasons.begin(), reasons.end(), job.reason) != reasons.end();
    if (!reported && !job.reason.empty() && job.reason != "None") reasons.push_back(job.reason);
  }
  return reasons.empty() ? state : absl::StrCat(state, " (", absl::StrJoin(reasons, ", "), ")");
}

// Converts a Kubernetes quantity such as 64Gi to Slurm's form, or returns nullopt if Slurm has none. Both use powers of
// two.
std::optional<std::string> SlurmMemory(const std::string& memory) {
  const size_t digits = std::min(memory.find_first_not_of("0123456789"), memory.size());
  const std::string unit = memory.substr(digits);
  if (digits == 0) return std::nullopt;
  for (const char* prefix : {"K", "M", "G", "T"}) {
    if (unit == prefix || unit == absl::StrCat(prefix, "i")) return absl::StrCat(memory.substr(0, digits), prefix);
  }
  return std::nullopt;
}

bool IsNumber(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> SlurmResources(const NodeGroup& group) {
  std::vector<std::string> options;
  for (const auto& [name, value] : group.resources) {
    const auto reject = [&, &name = name, &value = value](const char* expected) {
      return absl::InvalidArgumentError(absl::StrCat("cluster.groups ('", group.name, "'): resources has ", name, ": ",
                                                     value, ", and Slurm is asked for ", expected));
    };
    if (name == "memory") {
      const std::optional<std::string> memory = SlurmMemory(value);
      if (!memory) return reject("memory such as 64Gi");
      options.push_back("--mem=" + *memory);
    } else if (name == "cpu") {
      if (!IsNumber(value)) return reject("whole CPUs");
      options.push_back("--cpus-per-task=" + value);
    } else if (name.ends_with("/gpu")) {
      if (!IsNumber(value)) return reject("whole GPUs");
      options.push_back("--gres=gpu:" + value);
    } else {
      return reject("cpu, memory, and nvidia.com/gpu: put other sbatch options in the group's `slurm`");
    }
  }
  return options;
}

bool AsksForCpus(const NodeGroup& group, const std::vector<std::string>& options) {
  std::vector<std::string> all = options;
  const std::vector<std::string> own = OwnOptions(group);
  all.insert(all.end(), own.begin(), own.end());
  return !CpusOf(all).empty() || std::find(all.begin(), all.end(), "--exclusive") != all.end();
}

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
      AppendOptions(OwnOptions(group), text);
    }
    absl::StrAppend(&steps, "srun ", mixed ? absl::StrCat("--het-group=", i) : absl::StrCat("--relative=", nodes),
                    " --nodes=", group.nodes, " --ntasks=", group.nodes, " --ntasks-per-node=1",
                    CpusOfStep(group, script.options), " --no-kill --kill-on-bad-exit=0 -W0 --label \\\n  ",
                    Quoted(script.binary), " node ", Quoted(script.folder + "/config.yaml"), " --group ",
                    Quoted(group.name), " --resume &\n", Trains(group) ? "deciding=$!\n" : "");
    nodes += group.nodes;
  }
  if (!mixed) {
    absl::StrAppend(&text, "#SBATCH --nodes=", nodes, "\n#SBATCH --ntasks-per-node=1\n#SBATCH --no-kill\n");
    AppendOptions(script.options, text);
    if (!groups.empty()) AppendOptions(OwnOptions(groups.front()), text);
  }
  const std::string exit_file = Quoted(ExitFile(script));
  absl::StrAppend(&text, "\nrm -f ", exit_file, "\n", steps, R"(
# Asks every node's agent to stop in order. Slurm signals this shell before the time limit, and every process of a step:
# the roles ignore SIGINT, and their agent stops them.
stop() { scancel --signal=INT "$SLURM_JOB_ID"; }
trap stop TERM
# A signal ends a wait. A step that ended at once is already gone, but still has a code.
while kill -0 "$deciding" 2>/dev/null; do wait "$deciding"; done
wait "$deciding"
code=$?
echo "$code" > )",
                  exit_file, R"(
stop
# The others have their time too. A step that Slurm has lost would never end.
late=$((SECONDS + )",
                  warning, R"sh())
while [ -n "$(jobs -r)" ] && [ "$SECONDS" -lt "$late" ]; do sleep 1; done
[ -z "$(jobs -r)" ] || scancel "$SLURM_JOB_ID"
wait
exit "$code"
)sh");
  return text;
}

absl::Status CheckSlurm(const std::vector<NodeGroup>& groups, const RunCommand& run) {
  if (!Mixed(groups)) return absl::OkStatus();
  INGOT_ASSIGN_OR_RETURN(const std::string settings, run({"scontrol", "show", "config"}));
  std::istringstream lines(settings);
  for (std::string key, equals, value; lines >> key;) {
    if (key != "SchedulerType") continue;
    if (!(lines >> equals >> value) || value == "sched/backfill") break;
    return absl::FailedPreconditionError(
        absl::StrCat("this Slurm does not accept heterogeneous jobs (its SchedulerType is ", value,
                     ", and they need sched/backfill), but groups in cluster.groups have their own options (slurm): "
                     "give all nodes the same options in cluster.slurm"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> SubmitSlurm(const std::string& path, const RunCommand& run) {
  INGOT_ASSIGN_OR_RETURN(const std::string answer, run({"sbatch", "--parsable", path}));
  const std::string job = answer.substr(0, answer.find_first_of(";\n"));
  if (!job.empty() && job.find_first_not_of("0123456789") == std::string::npos) return job;
  return absl::UnavailableError(absl::StrCat("sbatch printed no job id: ", answer));
}

SlurmLauncher::SlurmLauncher(SlurmScript script, JobOptions options, std::string job)
    : JobLauncher(std::move(options)), script_(std::move(script)), job_(std::move(job)) {}

absl::StatusOr<std::string> SlurmLauncher::Present() {
  INGOT_ASSIGN_OR_RETURN(const std::vector<JobLine> jobs, ListJobs([this](const auto& argv) { return Run(argv); }));
  for (const JobLine& job : jobs) {
    std::error_code none;
    if (!std::filesystem::equivalent(job.command, ScriptFile(), none)) continue;
    return absl::StrCat("job ", job.id, " is ", StateOf(jobs, job.id), "; `scancel ", job.id, "` ends it");
  }
  return std::string();
}

absl::Status SlurmLauncher::Start() {
  INGOT_ASSIGN_OR_RETURN(job_, SubmitSlurm(ScriptFile(), [this](const auto& argv) { return Run(argv); }));
  pending_ = true;
  return absl::OkStatus();
}

absl::Status SlurmLauncher::Stop() {
  INGOT_RETURN_IF_ERROR(Run({"scancel", "--signal=INT", job_}).status());
  // A queued job has no tasks to signal.
  return pending_ ? Run({"scancel", job_}).status() : absl::OkStatus();
}

std::string SlurmLauncher::Advice() const {
  return absl::StrCat("`scontrol show job ", job_, "` and ", script_.folder, "/logs/slurm.log may show the cause");
}

absl::StatusOr<JobLauncher::State> SlurmLauncher::Poll() {
  INGOT_ASSIGN_OR_RETURN(const std::vector<JobLine> jobs, ListJobs([this](const auto& argv) { return Run(argv); }));
  State state{StateOf(jobs, job_), false, std::nullopt};
  state.over = state.text.empty();
  pending_ = state.text.starts_with("PENDING");
  if (int code = -1; state.over && std::ifstream(ExitFile(script_)) >> code) state.code = code;
  return state;
}

}  // namespace ingot::app
