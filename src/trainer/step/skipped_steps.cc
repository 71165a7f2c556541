#include "trainer/step/skipped_steps.h"

#include "base/log.h"

namespace ingot::trainer {

absl::Status SkippedSteps::Count(const std::string& step, const std::string& why) {
  if (in_a_row_ >= most_) {
    return absl::InternalError(absl::StrCat(step, " failed after ", in_a_row_,
                                            " consecutive skipped steps (max_skipped_steps ", most_,
                                            "); nothing was changed: ", why));
  }
  ++in_a_row_;
  INGOT_LOG(warn, "skipping {} ({} of at most {} consecutive steps): {}", step, in_a_row_, most_, why);
  return absl::OkStatus();
}

}  // namespace ingot::trainer
