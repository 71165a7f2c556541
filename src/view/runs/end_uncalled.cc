#include "view/runs/end_uncalled.h"

#include "base/json.h"
#include "view/query.h"

namespace ingot::view {

absl::StatusOr<std::string> AnswerEnd(const EndUncalled& end, std::string_view target, const std::string& key) {
  const Query query = Query::Of(target);
  INGOT_RETURN_IF_ERROR(query.Only({"id", "all"}));
  const std::string id = query.Text("id"), all = query.Text("all");
  if (id.empty() != (all == "1") || (all != "1" && !all.empty())) {
    return absl::InvalidArgumentError("id: expected an episode's id, or all=1");
  }
  if (end == nullptr) {
    return absl::NotFoundError(
        "this page cannot end episodes, because the run is over or has no gateway.admin_key_file: use `ingot episodes "
        "end`");
  }
  if (key.empty()) {
    return absl::UnauthenticatedError("ending an episode needs the key in the file gateway.admin_key_file");
  }
  INGOT_ASSIGN_OR_RETURN(const int64_t ended, end(id, key));
  return base::PrintJson(base::json::object{{"ended", ended}});
}

}  // namespace ingot::view
