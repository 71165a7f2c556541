#include "app/slurm.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "app/run_roles.h"
#include "base/random.h"
#include "sandbox/spawn.h"

extern char** environ;

namespace ingot::app {
namespace {

bool Trains(const NodeGroup& group) {
  return std::find(group.roles.begin(), group.roles.end(), "trainer") != group.roles.end();
}

void AppendOptions(const std::vector<std::string>& options, std::string& text) {
  for (const std::string& option : options) absl::StrAppend(&text, "#SBATCH ", option, "\n");
}

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
  const bool mixed = std::any_of(groups.begin(), groups.end(), [](const auto& group) { return !group.slurm.empty(); });
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
  const std::string exit_file = Quoted(script.folder + "/launch.exit");
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

absl::StatusOr<std::string> RunHere(const std::vector<std::string>& argv) {
  // A file takes the output: a pipe could fill up.
  const std::string path = absl::StrCat("/tmp/ingot-", base::RandomHex(8));
  const sandbox::Fd out(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  unlink(path.c_str());
  const sandbox::Fd none(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!out.valid() || !none.valid()) return sandbox::ErrnoStatus(errno, absl::StrCat("cannot run ", argv.front()));
  sandbox::Command command{.argv = argv, .env = {}, .working_dir = "", .stdin_text = ""};
  for (char** inherited = environ; *inherited != nullptr; ++inherited) {
    const std::string_view variable = *inherited;
    const size_t equals = variable.find('=');
    if (equals == 0 || equals == std::string_view::npos) continue;
    command.env.emplace(variable.substr(0, equals), variable.substr(equals + 1));
  }
  INGOT_ASSIGN_OR_RETURN(const pid_t pid, sandbox::Spawn(command, {none.get(), out.get(), out.get()},
                                                         {.own_session = false, .dumps_core = false}));
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  std::string text;
  std::array<char, 4096> bytes;
  lseek(out.get(), 0, SEEK_SET);
  for (ssize_t got = 0; (got = read(out.get(), bytes.data(), bytes.size())) > 0;) text.append(bytes.data(), got);
  text = std::string(absl::StripAsciiWhitespace(text));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return text;
  return absl::UnavailableError(
      absl::StrCat(absl::StrJoin(argv, " "), ": ", text.empty() ? "it failed without a word" : text));
}

absl::StatusOr<std::string> SubmitSlurm(const std::string& path, const RunCommand& run) {
  INGOT_ASSIGN_OR_RETURN(const std::string answer, run({"sbatch", "--parsable", path}));
  const std::string job = answer.substr(0, answer.find_first_of(";\n"));
  if (!job.empty() && job.find_first_not_of("0123456789") == std::string::npos) return job;
  return absl::UnavailableError(absl::StrCat("sbatch names no job: ", answer));
}

absl::StatusOr<int> WatchSlurm(const SlurmWatch& watch, const std::atomic<bool>& stop) {
  std::string last;
  bool told = false;
  for (;; std::this_thread::sleep_for(watch.poll)) {
    if (stop && !told) {
      told = true;
      watch.on_status(absl::StrCat("stopping job ", watch.job, " in order"));
      if (const auto signalled = watch.run({"scancel", "--signal=INT", watch.job}); !signalled.ok()) {
        watch.on_status(std::string(signalled.status().message()));
      }
      // A job that waits in the queue has no task to signal.
      if (last == "PENDING") (void)watch.run({"scancel", watch.job}).status();
    }
    const absl::StatusOr<std::string> listed = watch.run({"squeue", "--noheader", "--me", "--format=%i %T"});
    if (!listed.ok()) {
      watch.on_status(std::string(listed.status().message()));  // Slurm may be busy; the job goes on
      continue;
    }
    const std::string state = StateOf(*listed, watch.job);
    if (state.empty()) break;
    if (std::exchange(last, state) != state) watch.on_status(absl::StrCat("job ", watch.job, " is ", state));
  }
  int code = -1;
  std::ifstream(watch.exit_file) >> code;
  if (told) return absl::CancelledError("stopped");
  if (code >= 0) return code;
  return absl::AbortedError(absl::StrCat("job ", watch.job, " ended without an exit code in ", watch.exit_file,
                                         ": `scontrol show job ", watch.job,
                                         "` and the run's logs/slurm.log may tell why"));
}

}  // namespace ingot::app
