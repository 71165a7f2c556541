#include "app/commands/run/episodes.h"

#include <cstdio>
#include <filesystem>
#include <optional>

#include "app/commands/run/run_command.h"
#include "app/record/episodes_endpoint.h"
#include "app/record/stored_run.h"
#include "app/run/process.h"
#include "app/run/run_dir.h"
#include "app/terminal/progress.h"
#include "base/printable.h"
#include "base/secret.h"

namespace ingot::app {
namespace {

namespace fs = std::filesystem;
using base::json::value;

// Returns UNAVAILABLE with the reason why no process serves the run, and what to do.
absl::Status NotServed(const EpisodesArgs& args, const RunConfig& config, const absl::Status& silent) {
  const fs::path folder = fs::absolute(args.run_dir + "/").lexically_normal().parent_path();
  const absl::StatusOr<bool> held = RunDir::IsHeld(folder.parent_path(), folder.filename());
  if (held.ok() && !*held) {
    const std::string ended = DescribeEnd(args.run_dir, config);
    const std::string more = ended.empty() ? absl::StrCat("; `", CommandIn(args.run_dir, "ingot train run.yaml"),
                                                          " --resume` continues it, with its open episodes")
                                           : "; " + ended;
    return absl::UnavailableError(absl::StrCat("the run in ", args.run_dir, " is not running", more));
  }
  if (config.tasks.empty()) {
    return absl::UnavailableError(
        absl::StrCat("the run in ", args.run_dir, " is supervised training, which has no episodes"));
  }
  return absl::UnavailableError(
      absl::StrCat("the run in ", args.run_dir,
                   " does not respond: it may be starting, or another machine drives it (use this command there): ",
                   silent.message()));
}

// Returns the response of the run's process, or the reason why there is none.
template <typename T>
absl::StatusOr<T> Explained(const EpisodesArgs& args, const RunConfig& config, absl::StatusOr<T> answer) {
  if (answer.ok() || !absl::IsUnavailable(answer.status())) return answer;
  return NotServed(args, config, answer.status());
}

double NumberIn(const value& row, const char* name) {
  const value* const found = base::Find(row, name);
  return found != nullptr && found->is_number() ? found->to_number<double>() : 0;
}

std::string TextIn(const value& row, const char* name) {
  const value* const found = base::Find(row, name);
  return found != nullptr && found->is_string() ? base::Printable(std::string(found->get_string()), {.max_bytes = 80})
                                                : "";
}

void PrintList(const value& answer) {
  const value* const rows = base::Find(answer, "episodes");
  const auto count = static_cast<int64_t>(NumberIn(answer, "count"));
  int64_t shown = 0;
  if (rows != nullptr && rows->is_array() && !rows->get_array().empty()) {
    std::printf("%-32s %8s  %-5s %12s  %s\n", "episode", "age s", "kind", "group/sample", "task");
    for (const value& row : rows->get_array()) {
      const std::string place = absl::StrCat(static_cast<int64_t>(NumberIn(row, "group")), "/",
                                             static_cast<int64_t>(NumberIn(row, "sample")));
      std::printf("%-32s %8.0f  %-5s %12s  %s\n", TextIn(row, "episode").c_str(), NumberIn(row, "age_s"),
                  TextIn(row, "kind").c_str(), place.c_str(), TextIn(row, "task").c_str());
      ++shown;
    }
  }
  if (count == 0) std::printf("no open episode waits for its first call\n");
  if (count > shown) std::printf("%lld more are not listed\n", static_cast<long long>(count - shown));
}

absl::Status ListOrError(const EpisodesArgs& args) {
  INGOT_ASSIGN_OR_RETURN(const LoadedConfig loaded, LoadStoredConfig(args.run_dir));
  std::optional<Underway> asking("episodes: asking the run");
  INGOT_ASSIGN_OR_RETURN(const value answer, Explained(args, *loaded.config, AskForEpisodes(args.run_dir)));
  asking.reset();
  if (args.json) {
    std::printf("%s\n", base::PrintJson(answer).c_str());
    return absl::OkStatus();
  }
  PrintList(answer);
  const value* const silent = base::Find(answer, "silent");
  if (silent == nullptr || !silent->is_array() || silent->get_array().empty()) return absl::OkStatus();
  const value& first = silent->get_array().front();
  return absl::UnavailableError(absl::StrCat(
      silent->get_array().size(), " gateways do not respond, so their episodes are missing; the first error: ",
      first.is_string() ? base::Printable(std::string(first.get_string()), {.max_bytes = 200}) : "unknown"));
}

absl::StatusOr<std::string> KeyFor(const EpisodesArgs& args, const RunConfig& config) {
  if (!args.key_file.empty()) {
    absl::StatusOr<std::string> key = base::ReadSecret(args.key_file);
    return key.ok() ? std::move(key) : base::Annotate(key.status(), "--key-file");
  }
  absl::StatusOr<std::string> key = gateway::ReadAdminKey(config.gateway);
  if (key.ok()) return key;
  return base::Annotate(key.status(), "gateway (name the key's file with --key-file)");
}

absl::Status EndOrError(const EpisodesArgs& args) {
  if (args.ids.empty() && !args.all) {
    return absl::InvalidArgumentError(
        absl::StrCat("name episodes, or use --all; `ingot episodes list ", args.run_dir, "` lists them"));
  }
  INGOT_ASSIGN_OR_RETURN(const LoadedConfig loaded, LoadStoredConfig(args.run_dir));
  INGOT_ASSIGN_OR_RETURN(const std::string key, KeyFor(args, *loaded.config));
  const std::vector<std::string> ids = args.all ? std::vector<std::string>{""} : args.ids;
  for (const std::string& id : ids) {
    if (id.empty() && !args.all) return absl::InvalidArgumentError("the id of an episode is empty");
    std::optional<Underway> asking("episodes: asking the run");
    INGOT_ASSIGN_OR_RETURN(const int64_t ended, Explained(args, *loaded.config, AskToEnd(args.run_dir, id, key)));
    asking.reset();
    if (args.all) std::printf("ended %lld episodes\n", static_cast<long long>(ended));
    if (!args.all) std::printf("ended %s\n", base::Printable(id).c_str());
  }
  return absl::OkStatus();
}

}  // namespace

int ListEpisodes(const EpisodesArgs& args) {
  const absl::Status status = ListOrError(args);
  return status.ok() ? 0 : Fail(status);
}

int EndEpisodes(const EpisodesArgs& args) {
  const absl::Status status = EndOrError(args);
  return status.ok() ? 0 : Fail(status);
}

}  // namespace ingot::app
