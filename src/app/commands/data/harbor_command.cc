#include "app/commands/data/harbor_command.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <ostream>

#include "agents/options.h"
#include "agents/verifier_sandbox.h"
#include "app/commands/sandbox/image_command.h"
#include "app/terminal/progress.h"
#include "base/json.h"
#include "base/printable.h"
#include "dataset/harbor.h"
#include "dataset/task_folder.h"
#include "reward/harbor_task.h"
#include "reward/verifier.h"
#include "reward/verifiers/harbor.h"
#include "sandbox/image/image.h"
#include "sandbox/substrate.h"

namespace ingot::app {
namespace {

namespace fs = std::filesystem;

constexpr char kWorkAt[] = "/app";      // directory with the task's files if there is no image
constexpr int64_t kUsualSeconds = 600;  // for tasks without a timeout

// A task and its environment, as in a run.
struct Exam {
  std::string id, payload;
  std::string task_dir;
  reward::HarborTask harbor;
  sandbox::Image image;  // empty rootfs = the machine's programs, with work/ at kWorkAt
};

absl::StatusOr<Exam> ExamOf(const v1::Task& task, sandbox::ImageStore* images) {
  Exam exam{.id = task.task_id(), .payload = task.payload_json(), .task_dir = "", .harbor = {}, .image = {}};
  INGOT_ASSIGN_OR_RETURN(const base::json::value payload, base::ParseJson(exam.payload));
  INGOT_ASSIGN_OR_RETURN(exam.harbor, reward::ReadHarborTask(exam.payload));
  exam.task_dir = std::string(payload.at("task_dir").get_string());
  if (images != nullptr) {
    INGOT_ASSIGN_OR_RETURN(exam.image, images->ResolveStrangers(std::string(payload.at("image").get_string())));
  }
  if (exam.image.rootfs.empty()) {
    exam.image.working_dir = kWorkAt;
  } else if (!exam.harbor.workdir.empty()) {
    exam.image.working_dir = exam.harbor.workdir;
  }
  return exam;
}

// One attempt at one task. Same as an agent's episode, but with the solution instead of the agent.
class Attempt {
 public:
  Attempt(sandbox::Substrate& substrate, const Exam& exam) : substrate_(substrate), exam_(exam) {}

  // Returns the verdict on the solution, or on an unchanged sandbox, using this kind of verifier sandbox.
  absl::StatusOr<reward::Verdict> Run(bool solves, const std::string& verifier_sandbox) {
    sandbox::SandboxOptions options;
    options.image = exam_.image.rootfs;
    options.takes_snapshots = true;
    if (options.image.empty()) options.binds.push_back({"work", kWorkAt});
    agents::Limit(exam_.harbor, substrate_.options(), options);
    sandbox::SandboxOptions of_agent = options;
    of_agent.binds.push_back({"solution", "/solution"});
    INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<sandbox::Sandbox> sandbox, substrate_.Prepare(of_agent));
    if (exam_.harbor.health_check.has_value()) {
      INGOT_RETURN_IF_ERROR(
          agents::AwaitHealth(*exam_.harbor.health_check, CommandOf(*sandbox, {}), *sandbox, /*cancel=*/nullptr));
    }
    if (solves) INGOT_RETURN_IF_ERROR(Solve(*sandbox));
    INGOT_ASSIGN_OR_RETURN(
        const std::unique_ptr<sandbox::Sandbox> judge,
        agents::OpenVerifierSandbox(verifier_sandbox, substrate_, *sandbox, options, exam_.image.working_dir,
                                    /*is_harbor=*/true));
    return Judge(*judge);
  }

 private:
  sandbox::Command CommandOf(const sandbox::Sandbox& sandbox, std::vector<std::string> argv) const {
    sandbox::Command command{
        .argv = std::move(argv), .env = exam_.image.env, .working_dir = exam_.image.working_dir, .stdin_text = ""};
    command.env.emplace("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command.env["HOME"] = sandbox.home();
    for (const auto& [name, text] : exam_.harbor.env) command.env[name] = text;
    return command;
  }

  absl::Status Solve(sandbox::Sandbox& sandbox) const {
    INGOT_ASSIGN_OR_RETURN(const auto files, dataset::TaskFolder::Open(exam_.task_dir));
    INGOT_RETURN_IF_ERROR(files.CheckFolder("solution", dataset::Links::kInside));
    INGOT_ASSIGN_OR_RETURN(const std::string solution, files.PathOf("solution"));
    INGOT_RETURN_IF_ERROR(sandbox.FillBound("solution", solution));
    sandbox::Command command = CommandOf(sandbox, reward::HarborScript(solution + "/solve.sh", "/solution/solve.sh"));
    for (const auto& [name, text] : exam_.harbor.solution_env) command.env[name] = text;
    sandbox::Limits limits;
    limits.wall_time = std::chrono::seconds(kUsualSeconds);
    if (exam_.harbor.agent_timeout_s > 0)
      limits.wall_time = std::chrono::nanoseconds(static_cast<int64_t>(exam_.harbor.agent_timeout_s * 1e9));
    INGOT_ASSIGN_OR_RETURN(const sandbox::Outcome outcome, sandbox.Run(command, limits, nullptr));
    if (outcome.ending == sandbox::Ending::kExited) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("/solution/solve.sh ", sandbox::Describe(outcome, limits)));
  }

  absl::StatusOr<reward::Verdict> Judge(sandbox::Sandbox& sandbox) const {
    reward::VerifierOptions options;
    options.kind = "harbor";
    options.timeout_s = kUsualSeconds;
    INGOT_ASSIGN_OR_RETURN(const auto verifier, reward::Verifier::Make(options));
    reward::VerifierInput input;
    input.task = exam_.payload;
    input.sandbox = &sandbox;
    input.workdir = exam_.image.working_dir;
    input.env = agents::VariablesOfVerifier(exam_.image);
    input.episode_id = exam_.id;
    for (const auto& [name, folder] : {std::pair("verifier-home", &input.own_home), {"verifier-tmp", &input.own_tmp}}) {
      INGOT_ASSIGN_OR_RETURN(*folder, sandbox.AddFolder(name));
    }
    return verifier->Verify(input);
  }

  sandbox::Substrate& substrate_;
  const Exam& exam_;
};

// Returns whether the verdict is 0 because test.sh wrote no reward.
bool IsUnrewarded(const reward::Verdict& verdict) {
  return verdict.signals.at("no_reward") == 1 || verdict.signals.at("tests_timed_out") == 1;
}

struct Finding {
  std::string fault;  // why the task is wrong; empty = it is correct
  std::string note;   // empty = none
};

// `images` null = runs the task without its image.
absl::StatusOr<Finding> Examine(sandbox::Substrate& substrate, sandbox::ImageStore* images, const v1::Task& task) {
  INGOT_ASSIGN_OR_RETURN(const Exam exam, ExamOf(task, images));
  Attempt attempt(substrate, exam);
  const auto solved = attempt.Run(true, "pristine");
  if (!solved.ok() || solved->reward != 1) {
    const auto changed = attempt.Run(true, "changed");
    if (changed.ok() && changed->reward == 1) {
      return Finding{
          "its tests check files that the solution changed outside the work folder: set verifier_sandbox: changed in "
          "recipes",
          ""};
    }
    INGOT_RETURN_IF_ERROR(solved.status());
    const std::string why = IsUnrewarded(*solved) ? absl::StrCat(": ", solved->detail) : "";
    return Finding{absl::StrCat("its solution gets reward ", solved->reward, ", not 1", why), ""};
  }
  const auto idle = attempt.Run(false, "pristine");
  if (!idle.ok()) return Finding{absl::StrCat("doing nothing gets no reward: ", idle.status().message()), ""};
  if (idle->reward > 0) return Finding{absl::StrCat("doing nothing gets reward ", idle->reward, ", not 0"), ""};
  return Finding{"", IsUnrewarded(*idle) ? absl::StrCat("doing nothing counts as 0: ", idle->detail) : ""};
}

// Prints the task limits that this machine does not enforce.
void SayUnheld(const sandbox::ProbeResult& probe_result, const dataset::HarborFolder& read, std::ostream& out) {
  if (probe_result.groups > 0) return;
  for (const v1::Task& task : read.tasks) {
    const auto harbor = reward::ReadHarborTask(task.payload_json());
    if (!harbor.ok() || harbor->cpus == 0) continue;
    out << "note " << task.task_id()
        << ": environment.cpus: not enforced, because this machine allows only the isolation level "
        << sandbox::IsolationLevelName(probe_result.isolation) << "\n";
  }
}

}  // namespace

int CheckTasks(const TasksCheckArgs& args, std::ostream& out, std::ostream& errors) {
  const auto read = dataset::ReadHarborFolder(args.folder);
  if (!read.ok()) {
    errors << "ingot tasks check: " << read.status().message() << "\n";
    return 2;
  }
  for (const auto& rejection : read->rejected) out << "refused " << rejection.name << ": " << rejection.text << "\n";
  for (const auto& note : read->notes) out << "note " << note.name << ": " << note.text << "\n";
  std::unique_ptr<sandbox::Substrate> substrate;
  if (!args.only_read && !read->tasks.empty()) {
    sandbox::SubstrateOptions options;
    options.work_root = agents::DefaultWorkRoot();
    options.images = fs::absolute(ImageStoreFolder(args.store)).string();
    options.isolation = "auto";
    options.require = "namespaces";
    auto made = sandbox::MakeSubstrate(options);
    if (!made.ok()) {
      errors << "ingot tasks check: " << made.status().message() << "\n";
      return 2;
    }
    substrate = *std::move(made);
    SayUnheld(substrate->probe_result(), *read, out);
  }
  // Image names come from the tasks.
  sandbox::ImageStore images(ImageStoreFolder(args.store), {.build_hosts = args.build_hosts, .folders = {args.folder}});
  int wrong = 0, tried = 0;
  for (const v1::Task& task : read->tasks) {
    const absl::StatusOr<Finding> finding = [&]() -> absl::StatusOr<Finding> {
      if (args.only_read) return Finding();
      const Underway trying(absl::StrCat("tasks check: ", ++tried, " of ", read->tasks.size(), ", ", task.task_id()));
      return Examine(*substrate, args.without_images ? nullptr : &images, task);
    }();
    const std::string reason = base::Printable(finding.ok() ? finding->fault : std::string(finding.status().message()));
    if (finding.ok() && !finding->note.empty())
      out << "note " << task.task_id() << ": " << base::Printable(finding->note) << "\n";
    out << (reason.empty() ? "ok " : "wrong ") << task.task_id() << (reason.empty() ? "" : ": ") << reason << std::endl;
    if (!reason.empty()) ++wrong;
  }
  out << read->tasks.size() - static_cast<size_t>(wrong) << " of " << read->tasks.size() + read->rejected.size()
      << " tasks run here\n";
  return wrong == 0 ? 0 : 1;
}

}  // namespace ingot::app
