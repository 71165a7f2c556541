#include "app/commands/model/rollback.h"

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "app/commands/run/run_command.h"
#include "app/learning/rollback.h"
#include "app/run/process.h"
#include "app/run/run_dir.h"
#include "base/clock.h"
#include "base/printable.h"

namespace ingot::app {
namespace {

namespace fs = std::filesystem;

bool IsRunning(const std::string& run_dir) {
  const fs::path folder = fs::absolute(run_dir + "/").lexically_normal().parent_path();
  const absl::StatusOr<bool> held = RunDir::IsHeld(folder.parent_path(), folder.filename());
  return held.ok() && *held;
}

absl::Status RollBackOrError(const RollbackArgs& args) {
  std::error_code none;
  if (!fs::is_directory(args.run_dir + "/rounds", none)) {
    return absl::InvalidArgumentError(
        absl::StrCat(args.run_dir, " has no folder 'rounds': name the folder of a run of `ingot serve --learn`"));
  }
  INGOT_ASSIGN_OR_RETURN(const Rounds rounds, Rounds::Open(args.run_dir));
  INGOT_ASSIGN_OR_RETURN(const Rollback rollback, RequestRollback(rounds, args.to, base::Clock::Real().UnixNanos()));
  const std::string when =
      IsRunning(args.run_dir)
          ? "the server deploys it next, and rejects its open round"
          : absl::StrCat("the server is not running and deploys it when `",
                         CommandIn(args.run_dir, "ingot serve --learn run.yaml"), " --resume` starts");
  std::printf("rollback from version %ld to version %ld: %s\n", static_cast<long>(rounds.deployed()->version),
              static_cast<long>(rollback.to), base::Printable(when).c_str());
  return absl::OkStatus();
}

}  // namespace

int RollBack(const RollbackArgs& args) {
  const absl::Status done = RollBackOrError(args);
  return done.ok() ? 0 : Fail(done);
}

}  // namespace ingot::app
