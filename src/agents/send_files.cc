#include "agents/send_files.h"

#include "agents/episode_run.h"
#include "base/utf8.h"

namespace ingot::agents {
namespace {

constexpr size_t kPartBytes = 256 << 10;

}  // namespace

absl::Status SendFiles(const sandbox::Snapshot* files, const v1::NextSnapshotResponse& request,
                       const std::function<absl::Status(const v1::SnapshotFilesPart&)>& send) {
  v1::SnapshotFilesPart part;
  part.set_transfer_id(request.transfer_id());
  absl::Status sent;
  const auto flush = [&] {
    sent = send(part);
    part.set_offset(part.offset() + static_cast<int64_t>(part.data().size()));
    part.clear_data();
    return sent;
  };
  absl::Status written =
      absl::NotFoundError(absl::StrCat("this runner does not hold the snapshot ", request.snapshot_id()));
  if (files != nullptr) {
    written = files->WriteTar([&](std::string_view bytes) {
      part.mutable_data()->append(bytes);
      return part.data().size() < kPartBytes ? absl::OkStatus() : flush();
    });
  }
  INGOT_RETURN_IF_ERROR(sent);
  part.set_done(written.ok() || files == nullptr);
  if (!written.ok()) part.set_error(base::ToUtf8(std::string(written.message())));
  INGOT_RETURN_IF_ERROR(flush());
  return written;
}

}  // namespace ingot::agents
