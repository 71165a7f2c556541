#include "app/commands/run/run_command.h"

#include <algorithm>
#include <cerrno>  // program_invocation_name
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "absl/strings/ascii.h"
#include "app/terminal/shell_word.h"
#include "base/file.h"
#include "base/printable.h"

namespace ingot::app {
namespace {

namespace fs = std::filesystem;

constexpr char kCommand[] = "command";

// The newest checkpoint, by name.
struct Newest {
  int64_t step = -1;  // -1 = there is none
  std::string path;
};
Newest NewestCheckpoint(const std::string& root) {
  constexpr std::string_view kPrefix = "step-";
  Newest newest;
  std::error_code error;
  for (fs::directory_iterator entry(root, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    int64_t step = -1;
    if (!name.starts_with(kPrefix)) continue;
    const auto [rest, fault] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
    if (fault != std::errc() || rest != name.data() + name.size() || step <= newest.step) continue;
    newest = {step, entry->path().string()};
  }
  return newest;
}

int64_t NewestStep(const std::string& root) { return NewestCheckpoint(root).step; }

// Returns the run's model with the best held-out reward, or else the newest. Empty = there is none.
std::string ModelOf(const std::string& folder) {
  const std::string checkpoints = folder + "/checkpoints", best = checkpoints + "/best";
  std::error_code error;
  return fs::exists(best, error) ? best : NewestCheckpoint(checkpoints).path;
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

std::string FolderOf(const RunConfig& config) { return absl::StrCat(config.root, "/", config.name); }

void PrintLine(const RunConfig& config, const std::string& line) {
  std::printf("[%s] %s\n", config.name.c_str(), base::Printable(line).c_str());
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

std::string NextCommands(const std::string& folder, const std::string& program) {
  const auto line = [&program](const char* command, const std::string& path) {
    return absl::StrCat("  ", Quoted(program), " ", command, " ", Quoted(path.starts_with('-') ? "./" + path : path),
                        "\n");
  };
  const std::string model = ModelOf(folder);
  return absl::StrCat("next:\n", line("view", folder), line("report", folder),
                      model.empty() ? "" : line("serve", model));
}

void PrintNextCommands(const std::string& folder) {
  std::printf("%s", NextCommands(folder, program_invocation_name).c_str());
}

}  // namespace ingot::app
