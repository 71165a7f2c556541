#include "app/commands/run/run_command.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "absl/strings/ascii.h"
#include "app/terminal/shell_word.h"
#include "base/file.h"

namespace ingot::app {
namespace {

namespace fs = std::filesystem;

constexpr char kCommand[] = "command";

// The step of the newest checkpoint in `root`, by its name; -1 = there is none.
int64_t NewestStep(const std::string& root) {
  constexpr std::string_view kPrefix = "step-";
  int64_t newest = -1;
  std::error_code error;
  for (fs::directory_iterator entry(root, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    int64_t step = -1;
    if (!name.starts_with(kPrefix)) continue;
    const auto [rest, fault] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
    if (fault == std::errc() && rest == name.data() + name.size()) newest = std::max(newest, step);
  }
  return newest;
}

}  // namespace

std::string CommandOf(const std::string& verb, const RunArgs& args) {
  std::string command = absl::StrCat("ingot ", verb, " ", Quoted(args.config));
  for (const std::string& override : args.overrides) absl::StrAppend(&command, " --set ", Quoted(override));
  return command;
}

std::string CommandOfNode(const NodeArgs& args, int node) {
  return absl::StrCat(CommandOf("node", args.run), " --group ", Quoted(args.group), " --node ", node);
}

absl::Status KeepCommand(const RunDir& dir, const std::string& command) {
  return dir.WriteFile(kCommand, command + "\n");
}

std::string CommandIn(const std::string& folder, const std::string& other) {
  const absl::StatusOr<std::string> kept = base::ReadFile(absl::StrCat(folder, "/", kCommand));
  return kept.ok() ? std::string(absl::StripAsciiWhitespace(*kept)) : other;
}

std::string DescribeEnd(const std::string& folder, const RunConfig& config) {
  const int64_t saved = NewestStep(folder + "/checkpoints");
  const int64_t total = config.trainer.total_steps;
  if (config.tasks.empty() && saved >= 0) {
    return absl::StrCat("the run '", config.name, "' ended: its model is in ", folder, "/checkpoints");
  }
  if (config.tasks.empty() || saved < total) return "";
  return absl::StrCat("the run '", config.name, "' ended at step ", saved, " of ", total);
}

absl::Status WithNext(const absl::Status& status, const RunDir& dir, const std::string& command) {
  if (!absl::IsCancelled(status) || dir.replaces()) return status;
  const int64_t step = NewestStep(dir.checkpoints());
  const int64_t stages =
      std::max<int64_t>(0, NewestStep(dir.stages() + "/sft")) + std::max<int64_t>(0, NewestStep(dir.stages() + "/dpo"));
  const std::string saved = step >= 0    ? absl::StrCat("saved step ", step)
                            : stages > 0 ? absl::StrCat("saved ", stages, " supervised steps")
                                         : "no step is saved";
  return absl::CancelledError(absl::StrCat(status.message(), "; ", saved, "; `", command, " --resume` continues"));
}

}  // namespace ingot::app
