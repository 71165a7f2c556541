#include "sandbox/sandbox_fault.h"

#include "absl/strings/cord.h"

namespace ingot::sandbox {
namespace {

constexpr char kMark[] = "ingot/sandbox-fault";

}  // namespace

bool IsSandboxFault(const absl::Status& status) {
  return absl::IsDataLoss(status) || status.GetPayload(kMark).has_value();
}

absl::Status AsSandboxFault(absl::Status status) {
  const bool is_of_files =
      absl::IsNotFound(status) || absl::IsPermissionDenied(status) || absl::IsInvalidArgument(status);
  if (is_of_files) status.SetPayload(kMark, absl::Cord("1"));
  return status;
}

}  // namespace ingot::sandbox
