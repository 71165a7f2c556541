#include "reward/terms/python_score.h"

#include <filesystem>
#include <system_error>

#include "reward/terms/user_scores.h"

namespace ingot::reward {

void Bind(base::Schema& schema, PythonScoreOptions& o) { Bind(schema, static_cast<PythonOptions&>(o)); }

absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> PythonTerm::Judge(const GroupFacts& group) const {
  if (substrate_ == nullptr) return absl::FailedPreconditionError("this process has no sandbox for Python functions");
  if (group.episodes.empty()) return std::vector<absl::StatusOr<TermResult>>();
  std::error_code error;
  const std::string cwd = std::filesystem::current_path(error).string();
  absl::StatusOr<std::string> scores = function_.Call(*substrate_, cwd, GroupJson(group), "", nullptr);
  if (scores.ok()) scores = absl::StrCat("{\"scores\":", *scores, "}");
  return ScoresIn(scores, function_.options().function, group);
}

}  // namespace ingot::reward
