#include "agents/episode_run.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "agents/episode_servers.h"
#include "agents/exit_output.h"
#include "agents/verifier_sandbox.h"
#include "base/json.h"
#include "base/log.h"
#include "base/utf8.h"
#include "sandbox/sandbox_fault.h"

namespace ingot::agents {
namespace {

using sandbox::Ending;
using sandbox::Outcome;

// Why an episode ends early.
struct Trouble {
  std::string cause;
  std::string detail;
};

std::string Message(const absl::Status& status) { return std::string(status.message()); }

// Returns "crash" if the agent's files are at fault, because a second attempt would fail in the same way.
std::string CauseOf(const absl::Status& status, const char* otherwise) {
  return sandbox::IsSandboxFault(status) ? "crash" : otherwise;
}

class EpisodeRunner {
 public:
  EpisodeRunner(const Recipe& recipe, const v1::EpisodeOpenResponse& episode, const EpisodeContext& context)
      : recipe_(recipe), episode_(episode), context_(context) {
    // Set in successful episodes as well, so the mean over episodes is a rate.
    for (const char* way : {"agent/timeout", "agent/crash", "agent/flood"}) report_.signals[way] = 0;
  }
  ~EpisodeRunner() {
    if (context_.live != nullptr) context_.live->SetSandbox(nullptr);
  }

  EpisodeReport Run() {
    if (const auto trouble = RunInFolder()) {
      report_.cause = context_.cancel != nullptr && context_.cancel->cancelled() ? "stopped" : trouble->cause;
      report_.detail = trouble->detail;
      report_.has_reward = false;
    }
    ReportWhatSandboxesSee();
    if (report_.has_reward) report_.signals.emplace("answer_malformed", 0);
    if (sandbox_ != nullptr) {
      if (report_.fork == nullptr) CleanUp();  // leaves continue to use what setup acquired, and each one releases it
      if (!report_.cause.empty() && recipe_.options.keep_failed && context_.may_keep && context_.may_keep())
        PreserveFolder();
    }
    report_.detail = base::ToUtf8(report_.detail);
    return std::move(report_);
  }

 private:
  // If a file is missing because the sandbox does not expose it, the failure explains how to expose it.
  void ReportWhatSandboxesSee() {
    const bool failed = !report_.cause.empty() || report_.signals["agent/crash"] > 0;
    if (!failed || !wish_.image.empty() || !context_.substrate->probe_result().root_folder) return;
    report_.detail += MissingFilesHint(report_.detail);
  }

  std::optional<Trouble> RunInFolder() {
    if (!episode_.task().payload_json().empty()) task_ = episode_.task().payload_json();
    const auto payload = base::ParseJson(task_);
    if (!payload.ok()) return Trouble{"task", absl::StrCat("the task's payload is ", Message(payload.status()))};
    if (!payload->is_object()) return Trouble{"task", "the task's payload is not a JSON object"};
    wish_.takes_snapshots = HasVerifierSandbox() || episode_.fork_at() > 0;
    wish_.from = context_.from;
    if (!recipe_.options.work_at.empty()) wish_.binds = {{"work", recipe_.options.work_at}};
    if (auto trouble = ReadHarbor()) return trouble;
    if (auto trouble = FindImage()) return trouble;
    auto sandbox = context_.substrate->Prepare(wish_);
    if (!sandbox.ok()) return Trouble{"sandbox", Message(sandbox.status())};
    sandbox_ = *std::move(sandbox);
    if (context_.live != nullptr) context_.live->SetSandbox(sandbox_.get());
    places_ = {.work = sandbox_->work(),
               .home = sandbox_->home(),
               .tmp = sandbox_->tmp(),
               .cwd = context_.cwd,
               .base_url = sandbox_->InsideUrl(episode_.base_url())};
    if (sandbox::Fd listener = sandbox_->TakeListener(); listener.valid() && context_.gateway_access != nullptr) {
      auto entrance = context_.gateway_access->Open(std::move(listener), episode_.base_url());
      if (!entrance.ok()) return Trouble{"sandbox", Message(entrance.status())};
      entrance_ = *std::move(entrance);
    }
    variables_ = VariablesOf(episode_, task_, places_);
    if (auto trouble = DeclareServers()) return trouble;
    if (auto trouble = MakeEnvironment()) return trouble;
    if (auto trouble = WriteFiles()) return trouble;
    if (context_.from == nullptr) {
      if (auto trouble = SetUp()) return trouble;
      if (auto trouble = CheckHealth()) return trouble;
    }
    if (auto trouble = StartServers()) return trouble;
    if (auto trouble = RunAgent()) return trouble;
    if (report_.fork != nullptr) return std::nullopt;
    return report_.has_reward ? std::nullopt : Verify();  // "zero" has already set the reward
  }

  // A Harbor task includes limits and other settings.
  std::optional<Trouble> ReadHarbor() {
    if (recipe_.options.verifier.kind != "harbor") return std::nullopt;
    auto read = reward::ReadHarborTask(task_);
    if (!read.ok()) return Trouble{"task", Message(read.status())};
    harbor_ = *std::move(read);
    Limit(harbor_, context_.substrate->options(), wish_);
    return std::nullopt;
  }

  // Finds the image that the recipe specifies for this task.
  std::optional<Trouble> FindImage() {
    if (recipe_.options.image.empty()) return std::nullopt;
    const sandbox::Variables variables =
        VariablesOf(episode_, task_, {.work = "", .home = "", .tmp = "", .cwd = context_.cwd, .base_url = ""});
    const auto source = recipe_.image.Render(variables);
    if (!source.ok()) return Trouble{"task", absl::StrCat("image: ", Message(source.status()))};
    if (context_.images == nullptr) return Trouble{"sandbox", "there is no image store"};
    const bool is_tasks = recipe_.image.Uses("task") || recipe_.image.Uses("task_id");
    auto image = is_tasks ? context_.images->ResolveStrangers(*source) : context_.images->Resolve(*source);
    if (!image.ok())
      return Trouble{absl::IsPermissionDenied(image.status()) ? "task" : "sandbox", Message(image.status())};
    image_ = *std::move(image);
    if (!harbor_.workdir.empty()) image_.working_dir = harbor_.workdir;
    wish_.image = image_.rootfs;
    return std::nullopt;
  }

  // Returns the folder where commands start.
  const std::string& WorkingDir() const { return image_.rootfs.empty() ? sandbox_->work() : image_.working_dir; }

  std::optional<Trouble> DeclareServers() {
    const absl::Status declared = servers_.Declare(recipe_, variables_, *sandbox_, context_.mcp);
    if (!declared.ok()) return Trouble{absl::IsInvalidArgument(declared) ? "task" : "sandbox", Message(declared)};
    variables_.json.emplace("mcp", base::JsonText(servers_.text()));
    return std::nullopt;
  }

  // No other command may run between starting these servers and starting the agent, because the end of a command stops
  // them.
  std::optional<Trouble> StartServers() {
    const sandbox::Command like{.argv = {}, .env = env_, .working_dir = WorkingDir(), .stdin_text = ""};
    const absl::Status started = servers_.Start(recipe_, like, *sandbox_, context_.cancel);
    if (started.ok()) return std::nullopt;
    const std::string kind = servers_.failed_kind();
    return Trouble{context_.from != nullptr ? CauseOf(started, kind.c_str()) : kind, Message(started)};
  }

  std::optional<Trouble> MakeEnvironment() {
    auto environment = EnvironmentOf(recipe_, episode_, places_, variables_);
    if (!environment.ok()) return Trouble{"task", Message(environment.status())};
    env_ = *std::move(environment);
    // The image's PATH refers to the image's own files.
    for (const auto& [name, value] : image_.env) {
      if (!recipe_.options.env.contains(name) && (name == "PATH" || !env_.contains(name))) env_[name] = value;
    }
    for (const auto& [name, value] : harbor_.env) env_[name] = value;
    if (episode_.has_fork()) env_["INGOT_FORK"] = episode_.fork().snapshot_id();
    return std::nullopt;
  }

  // A leaf keeps the files that its trunk left, except for files that contain the episode, its key, or its
  // folders.
  std::optional<Trouble> WriteFiles() {
    v1::EpisodeOpenResponse nobody = episode_;
    for (std::string* own : {nobody.mutable_episode_id(), nobody.mutable_api_key()}) own->clear();
    const sandbox::Variables of_any =
        VariablesOf(nobody, task_, {.work = "", .home = "", .tmp = "", .cwd = context_.cwd, .base_url = ""});
    for (const auto& [path, text] : recipe_.files) {
      const auto content = text.Render(variables_);
      if (!content.ok()) return Trouble{"task", absl::StrCat("files.", path, ": ", Message(content.status()))};
      if (context_.from != nullptr && text.Render(of_any).value_or("") == *content) continue;
      absl::Status written = sandbox_->WriteFile(path, *content);
      if (context_.from != nullptr)
        written = sandbox::AsSandboxFault(std::move(written));  // the trunk's agent created the folders
      if (!written.ok()) return Trouble{CauseOf(written, "sandbox"), Message(written)};
    }
    return std::nullopt;
  }

  absl::StatusOr<sandbox::Command> MakeCommand(const CommandTemplate& command) const {
    INGOT_ASSIGN_OR_RETURN(auto argv, RenderCommand(command, variables_));
    return sandbox::Command{.argv = std::move(argv), .env = env_, .working_dir = WorkingDir(), .stdin_text = ""};
  }

  std::optional<Trouble> SetUp() {
    const sandbox::Limits limits = recipe_.LimitsFor(recipe_.options.setup_timeout_s);
    for (size_t i = 0; i < recipe_.setup.size(); ++i) {
      const auto command = MakeCommand(recipe_.setup[i]);
      if (!command.ok()) return Trouble{"task", absl::StrCat("setup[", i, "]: ", Message(command.status()))};
      const auto outcome = sandbox_->Run(*command, limits, context_.cancel);
      if (!outcome.ok())
        return Trouble{"setup", absl::StrCat("setup[", i, "] did not run: ", Message(outcome.status()))};
      if (outcome->ending == Ending::kNoSpace) return FullDisk(*outcome);
      if (!outcome->ok()) {
        return Trouble{"setup",
                       absl::StrCat("setup[", i, "] (", command->argv[0], ") ", sandbox::Describe(*outcome, limits),
                                    DescribeExitOutput("stderr", outcome->err))};
      }
    }
    return std::nullopt;
  }

  std::optional<Trouble> CheckHealth() {
    if (!harbor_.health_check.has_value()) return std::nullopt;
    const sandbox::Command like{.argv = {}, .env = env_, .working_dir = WorkingDir(), .stdin_text = ""};
    const absl::Status healthy = AwaitHealth(*harbor_.health_check, like, *sandbox_, context_.cancel);
    return healthy.ok() ? std::nullopt : std::optional(Trouble{"setup", Message(healthy)});
  }

  // It is unknown what filled the disk, so this does not count against the agent.
  static Trouble FullDisk(const Outcome& outcome) {
    return {"disk",
            absl::StrCat("a command ", sandbox::Describe(outcome, {}), DescribeExitOutput("stderr", outcome.err))};
  }

  // Called when a trunk's agent has ended at the fork, between two calls.
  std::optional<Trouble> Fork() {
    auto files = sandbox_->TakeSnapshot();
    if (!files.ok()) {
      const std::string cause = CauseOf(files.status(), "sandbox");
      return Trouble{cause, absl::StrCat("cannot take a snapshot of the trunk: ", Message(files.status()))};
    }
    report_.fork = *std::move(files);
    return std::nullopt;
  }

  std::optional<Trouble> RunAgent() {
    const auto command = MakeCommand(recipe_.command);
    if (!command.ok()) return Trouble{"task", absl::StrCat("command: ", Message(command.status()))};
    limits_ = recipe_.agent_limits;
    if (harbor_.agent_timeout_s > 0) limits_ = recipe_.LimitsFor(harbor_.agent_timeout_s);
    auto outcome =
        sandbox_->Run(*command, limits_, context_.live != nullptr ? &context_.live->end_of_agent() : context_.cancel);
    if (!outcome.ok()) {
      // A leaf starts with the files that the trunk's agent left.
      const std::string cause = context_.from != nullptr ? CauseOf(outcome.status(), "sandbox") : "sandbox";
      return Trouble{cause, absl::StrCat("the agent did not start: ", Message(outcome.status()))};
    }
    agent_ = std::move(*outcome);
    report_.agent_ran = true;
    report_.completion_s = std::chrono::duration<double>(agent_.wall).count();
    report_.cpu_s = std::chrono::duration<double>(agent_.cpu).count();
    report_.signals["agent/completion_seconds"] = report_.completion_s;
    report_.signals["agent/cpu_seconds"] = report_.cpu_s;
    if (agent_.ok()) return std::nullopt;
    const RecipeOptions& options = recipe_.options;
    switch (agent_.ending) {
      case Ending::kCancelled:
        if (context_.cancel == nullptr || !context_.cancel->cancelled()) return Fork();
        return Trouble{"stopped", "the runner was stopped"};
      case Ending::kTimedOut:
        return Misbehaved("timeout", options.on_timeout);
      case Ending::kNoSpace:
        return FullDisk(agent_);
      case Ending::kOutputOverflow:
      case Ending::kDiskFull:
        return Misbehaved("flood", options.on_flood);
      default:
        return Misbehaved("crash", options.on_crash);
    }
  }

  std::optional<Trouble> Misbehaved(const std::string& cause, const std::string& fate) {
    const std::string what =
        absl::StrCat("the agent ", sandbox::Describe(agent_, limits_), DescribeExitOutput("stderr", agent_.err));
    if (fate == "fail") return Trouble{cause, what};
    report_.signals[absl::StrCat("agent/", cause)] = 1;
    if (fate == "verify") return std::nullopt;
    report_.has_reward = true;
    report_.reward = 0;
    report_.by_default = true;
    report_.detail = what;
    return std::nullopt;
  }

  // Returns true if the verifier has its own sandbox.
  bool HasVerifierSandbox() const {
    const std::string kind = VerifierSandboxOf(recipe_.options);
    return kind == "changed" || kind == "pristine";
  }

  // The agent's files prevent the verifier from judging, and a second attempt would only repeat that.
  std::optional<Trouble> Unjudgeable(const absl::Status& why) {
    const std::string what = absl::StrCat("the agent's files cannot be verified: ", Message(why));
    if (recipe_.options.on_crash == "fail") return Trouble{"crash", what};
    report_.signals["agent/crash"] = 1;
    report_.has_reward = true;
    report_.reward = 0;
    report_.by_default = true;
    report_.detail = what;
    return std::nullopt;
  }

  // Opens the verifier's sandbox. An episode that has a reward does not need one.
  std::optional<Trouble> EnterVerifierSandbox() {
    verifier_sandbox_ = sandbox_.get();
    if (!HasVerifierSandbox()) return std::nullopt;
    auto sandbox = OpenVerifierSandbox(VerifierSandboxOf(recipe_.options), *context_.substrate, *sandbox_, wish_,
                                       image_.working_dir, recipe_.options.verifier.kind == "harbor");
    if (sandbox::IsSandboxFault(sandbox.status())) return Unjudgeable(sandbox.status());
    if (!sandbox.ok()) return Trouble{"sandbox", Message(sandbox.status())};
    fresh_sandbox_ = *std::move(sandbox);
    verifier_sandbox_ = fresh_sandbox_.get();
    return std::nullopt;
  }

  std::optional<Trouble> Verify() {
    if (!recipe_.verifier->decides()) return std::nullopt;
    if (auto trouble = EnterVerifierSandbox()) return trouble;
    if (report_.has_reward) return std::nullopt;
    reward::VerifierInput input;
    input.task = task_;
    input.sandbox = verifier_sandbox_;
    input.workdir = image_.rootfs.empty() ? verifier_sandbox_->work() : image_.working_dir;
    if (!recipe_.options.work_at.empty()) input.workdir = recipe_.options.work_at;
    input.home = verifier_sandbox_->home();
    input.substrate = context_.substrate;
    input.env = VariablesOfVerifier(image_);
    if (!VerifierSandboxOf(recipe_.options).empty()) {
      for (const auto& [name, folder] :
           {std::pair("verifier-home", &input.own_home), {"verifier-tmp", &input.own_tmp}}) {
        auto made = verifier_sandbox_->AddFolder(name);
        if (sandbox::IsSandboxFault(made.status())) return Unjudgeable(made.status());
        if (!made.ok()) return Trouble{"sandbox", Message(made.status())};
        *folder = *std::move(made);
      }
    }
    input.episode_id = episode_.episode_id();
    input.cwd = context_.cwd;
    input.cancel = context_.cancel;
    input.messages = context_.messages;
    if (recipe_.options.answer_from == "file") {
      const auto content =
          verifier_sandbox_->ReadFile(recipe_.options.answer_file, recipe_.options.verifier.max_answer_bytes);
      if (content.ok()) input.answer = *content;
      input.no_answer_reason = Message(content.status());
    } else {
      input.answer = LastLine(agent_.out);
      input.no_answer_reason = "the agent printed nothing";
    }
    auto verdict = recipe_.verifier->Verify(input);
    if (sandbox::IsSandboxFault(verdict.status())) return Unjudgeable(verdict.status());
    if (!verdict.ok()) return Trouble{"verifier", Message(verdict.status())};
    report_.has_reward = true;
    report_.reward = verdict->reward;
    report_.detail = verdict->detail;
    report_.signals.merge(verdict->signals);
    report_.facts = std::move(verdict->facts);
    return std::nullopt;
  }

  // Stopping shortens cleanup but does not cancel it because setup may have acquired resources that must be released.
  void CleanUp() {
    for (const CommandTemplate& step : recipe_.cleanup) {
      const bool stopping = context_.cancel != nullptr && context_.cancel->cancelled();
      const double seconds = recipe_.options.cleanup_timeout_s;
      const sandbox::Limits limits = recipe_.LimitsFor(stopping ? std::min(seconds, 1.0) : seconds);
      const auto command = MakeCommand(step);
      const auto outcome = command.ok() ? sandbox_->Run(*command, limits, nullptr) : command.status();
      if (!outcome.ok() || !outcome->ok()) {
        INGOT_LOG(warn, "cleanup of episode {}: {}", episode_.episode_id(),
                  outcome.ok() ? sandbox::Describe(*outcome, limits) + DescribeExitOutput("stderr", outcome->err)
                               : Message(outcome.status()));
      }
    }
  }

  void PreserveFolder() {
    const auto kept = sandbox_->KeepFolders(episode_.episode_id(),
                                            {{"stdout.txt", agent_.out},
                                             {"stderr.txt", agent_.err},
                                             {"failure.txt", absl::StrCat(report_.cause, ": ", report_.detail, "\n")}});
    INGOT_LOG(info, "episode {} failed ({}); {}", episode_.episode_id(), report_.cause,
              kept.ok() ? "its folder is " + *kept : Message(kept.status()));
  }

  const Recipe& recipe_;
  const v1::EpisodeOpenResponse& episode_;
  const EpisodeContext& context_;
  std::string task_ = "{}";  // the task's payload, in JSON
  std::unique_ptr<sandbox::Sandbox> sandbox_;
  std::unique_ptr<sandbox::Sandbox> fresh_sandbox_;  // the verifier's sandbox; null = it uses the agent's
  sandbox::Sandbox* verifier_sandbox_ = nullptr;
  std::shared_ptr<void> entrance_;  // the sandbox's connection to the gateway
  sandbox::Image image_;            // empty rootfs = none
  sandbox::SandboxOptions wish_;
  reward::HarborTask harbor_;  // not set for other kinds of verifiers
  sandbox::Limits limits_;     // the agent's limits
  EpisodePlaces places_;
  EpisodeServers servers_;
  sandbox::Variables variables_;
  std::map<std::string, std::string> env_;
  Outcome agent_;
  EpisodeReport report_;
};

}  // namespace

EpisodeReport RunEpisode(const Recipe& recipe, const v1::EpisodeOpenResponse& episode, const EpisodeContext& context) {
  try {
    return EpisodeRunner(recipe, episode, context).Run();
  } catch (const std::exception& error) {  // out of memory; only this episode fails
    EpisodeReport report;
    report.cause = "sandbox";
    report.detail = absl::StrCat("exception: ", error.what());
    return report;
  }
}

std::optional<std::string> LastLine(const std::string& text) {
  const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
  if (trimmed.empty()) return std::nullopt;
  const size_t newline = trimmed.rfind('\n');
  return std::string(
      absl::StripAsciiWhitespace(newline == absl::string_view::npos ? trimmed : trimmed.substr(newline + 1)));
}

}  // namespace ingot::agents
