#include "app/harbor_command.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <ostream>

#include "absl/strings/ascii.h"
#include "agents/options.h"
#include "app/progress.h"
#include "base/json.h"
#include "dataset/harbor.h"
#include "reward/verifiers/harbor.h"
#include "sandbox/image.h"
#include "sandbox/substrate.h"

namespace ingot::app {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargestReward = 1 << 20;  // bytes of a reward file
constexpr char kWorkAt[] = "/app";           // the place of tasks' files without an image

std::string StoreOf(const std::string& named) { return named.empty() ? agents::DefaultWorkRoot() + "/images" : named; }

// One attempt at one task in rooms of its own.
class Attempt {
 public:
  Attempt(sandbox::Substrate& substrate, const sandbox::Image& image, const base::json::value& task)
      : substrate_(substrate), image_(image), task_(task) {}

  // The reward of the solution, or of nothing.
  absl::StatusOr<double> Run(bool solves) {
    sandbox::RoomOptions options;
    options.image = image_.rootfs;
    options.binds = {{"logs", "/logs"}, {"tests", "/tests"}, {"solution", "/solution"}};
    if (image_.rootfs.empty()) options.binds.push_back({"work", kWorkAt});
    options.totals.memory_bytes = Number("memory_mb") << 20;
    INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<sandbox::Room> room, substrate_.Prepare(options));
    if (solves) {
      INGOT_RETURN_IF_ERROR(room->FillBound("solution", Text("task_dir") + "/solution"));
      INGOT_RETURN_IF_ERROR(Script(*room, "/solution/solve.sh", Number("agent_timeout_s")).status());
    }
    return Judge(*room);
  }

 private:
  std::string Text(const char* name) const { return std::string(task_.at(name).get_string()); }
  int64_t Number(const char* name) const { return static_cast<int64_t>(task_.at(name).to_number<double>()); }

  // The script's result, for people.
  absl::StatusOr<std::string> Script(sandbox::Room& room, const std::string& path, int64_t seconds) const {
    sandbox::Command command{.argv = {"sh", "-c", reward::kRunHarborScript, "sh", path},
                             .env = image_.env,
                             .working_dir = image_.rootfs.empty() ? kWorkAt : image_.working_dir,
                             .stdin_text = ""};
    command.env.emplace("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command.env["HOME"] = room.home();
    sandbox::Limits limits;
    limits.wall_time = std::chrono::seconds(seconds);
    const auto outcome = room.Run(command, limits, nullptr);
    INGOT_RETURN_IF_ERROR(outcome.status());
    std::string what = absl::StrCat(path, " ", sandbox::Describe(*outcome, limits));
    if (outcome->ending != sandbox::Ending::kExited) return absl::InternalError(what);
    const std::string said(absl::StripAsciiWhitespace(outcome->err));
    if (const size_t line = said.rfind('\n'); !said.empty()) {
      absl::StrAppend(&what, "; stderr ends: ", line == std::string::npos ? said : said.substr(line + 1));
    }
    return what;
  }

  // The tests arrive when nothing of the attempt runs, and reward files that it left are gone.
  absl::StatusOr<double> Judge(sandbox::Room& room) const {
    INGOT_RETURN_IF_ERROR(room.FillBound("tests", Text("tests_dir")));
    INGOT_RETURN_IF_ERROR(FillLogs(room));
    INGOT_ASSIGN_OR_RETURN(const std::string ended, Script(room, "/tests/test.sh", Number("verifier_timeout_s")));
    if (const auto text = room.ReadBound("logs", "verifier/reward.txt", kLargestReward); text.ok()) return Parse(*text);
    const auto text = room.ReadBound("logs", "verifier/reward.json", kLargestReward);
    if (text.ok()) return Parse(*text);
    return absl::InternalError(absl::StrCat("no reward.txt or reward.json in /logs/verifier: ", ended));
  }

  // Only an empty verifier/ is in /logs.
  static absl::Status FillLogs(sandbox::Room& room) {
    const std::string made = fs::temp_directory_path().string() + "/ingot-logs-" + std::to_string(getpid());
    std::error_code ignored;
    fs::create_directories(made + "/verifier", ignored);
    absl::Status filled = room.FillBound("logs", made);
    fs::remove_all(made, ignored);
    return filled;
  }

  static absl::StatusOr<double> Parse(const std::string& text) {
    INGOT_ASSIGN_OR_RETURN(const base::json::value json,
                           base::ParseJson(std::string(absl::StripAsciiWhitespace(text))));
    if (json.is_number()) return json.to_number<double>();
    const base::json::value* reward = base::Find(json, "reward");
    if (reward == nullptr && json.is_object() && json.get_object().size() == 1)
      reward = &json.get_object().begin()->value();
    if (reward != nullptr && reward->is_number()) return reward->to_number<double>();
    return absl::InvalidArgumentError("the reward file holds no reward");
  }

  sandbox::Substrate& substrate_;
  const sandbox::Image& image_;
  const base::json::value& task_;
};

// "" or why the task is wrong. `images`: null = the task is tried without its image.
absl::StatusOr<std::string> Fault(sandbox::Substrate& substrate, sandbox::ImageStore* images, const v1::Task& task) {
  INGOT_ASSIGN_OR_RETURN(const base::json::value payload, base::ParseJson(task.payload_json()));
  sandbox::Image image;
  if (images != nullptr) {
    INGOT_ASSIGN_OR_RETURN(image, images->Resolve(std::string(payload.at("image").get_string())));
  }
  Attempt attempt(substrate, image, payload);
  INGOT_ASSIGN_OR_RETURN(const double solved, attempt.Run(true));
  if (solved != 1) return absl::StrCat("its solution gives ", solved, ", not 1");
  const auto idle = attempt.Run(false);
  if (idle.ok() && *idle == 1) return "doing nothing gives 1";
  return "";
}

}  // namespace

int UnpackImage(const ImageArgs& args, std::ostream& out, std::ostream& errors) {
  sandbox::ImageStore store(StoreOf(args.store));
  const auto image = [&] {
    const Underway unpacking("image: unpacking " + args.source);
    return store.Resolve(args.source);
  }();
  if (!image.ok()) {
    errors << "ingot image: " << image.status().message() << "\n";
    return 1;
  }
  base::json::object env;
  for (const auto& [name, value] : image->env) env[name] = value;
  out << base::PrintJson(
             {{"digest", image->digest}, {"rootfs", image->rootfs}, {"working_dir", image->working_dir}, {"env", env}})
      << "\n";
  return 0;
}

int CheckTasks(const TasksCheckArgs& args, std::ostream& out, std::ostream& errors) {
  const auto read = dataset::ReadHarborFolder(args.folder);
  if (!read.ok()) {
    errors << "ingot tasks check: " << read.status().message() << "\n";
    return 2;
  }
  for (const auto& refusal : read->refused) out << "refused " << refusal.name << ": " << refusal.reason << "\n";
  std::unique_ptr<sandbox::Substrate> substrate;
  if (!args.only_read && !read->tasks.empty()) {
    sandbox::SubstrateOptions options;
    options.work_root = agents::DefaultWorkRoot();
    options.images = fs::absolute(StoreOf(args.store)).string();
    options.rung = "auto";
    options.require = "namespaces";
    auto made = sandbox::MakeSubstrate(options);
    if (!made.ok()) {
      errors << "ingot tasks check: " << made.status().message() << "\n";
      return 2;
    }
    substrate = *std::move(made);
  }
  sandbox::ImageStore images(StoreOf(args.store));
  int wrong = 0, tried = 0;
  for (const v1::Task& task : read->tasks) {
    const absl::StatusOr<std::string> fault = [&]() -> absl::StatusOr<std::string> {
      if (args.only_read) return std::string();
      const Underway trying(absl::StrCat("tasks check: ", ++tried, " of ", read->tasks.size(), ", ", task.task_id()));
      return Fault(*substrate, args.without_images ? nullptr : &images, task);
    }();
    const std::string reason = fault.ok() ? *fault : std::string(fault.status().message());
    out << (reason.empty() ? "ok " : "wrong ") << task.task_id() << (reason.empty() ? "" : ": ") << reason << std::endl;
    if (!reason.empty()) ++wrong;
  }
  out << read->tasks.size() - static_cast<size_t>(wrong) << " of " << read->tasks.size() + read->refused.size()
      << " tasks run here\n";
  return wrong == 0 ? 0 : 1;
}

}  // namespace ingot::app
