#include "app/training/pinned_versions.h"

#include <filesystem>
#include <memory>
#include <set>

#include "app/models/snapshots.h"
#include "base/checksum.h"
#include "base/file.h"
#include "base/log.h"
#include "base/written_files.h"
#include "trainer/checkpoints/files.h"

namespace ingot::app {
namespace {

std::string Number(int64_t version) { return fmt::format("{:08}", version); }

}  // namespace

std::string PinnedVersions::Folder(int64_t version) const { return dir_.path() + "/pinned/version-" + Number(version); }

std::string PinnedVersions::ChecksumFile(int64_t version) const { return Folder(version) + ".checksum"; }

absl::Status PinnedVersions::Save(const model::ModelConfig& shape,
                                  const std::shared_ptr<const weights::Snapshot>& snapshot) const {
  if (!Pins(snapshot->version())) return absl::OkStatus();
  const std::string root = dir_.path() + "/pinned";
  std::error_code error;
  std::filesystem::create_directories(root, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot make ", root, ": ", error.message()));
  INGOT_RETURN_IF_ERROR(base::Annotate(SaveSnapshot(Folder(snapshot->version()), shape, snapshot),
                                       absl::StrCat("keeping pinned version ", snapshot->version())));
  INGOT_RETURN_IF_ERROR(base::WriteChecksums(Folder(snapshot->version())));
  INGOT_RETURN_IF_ERROR(
      base::WriteFileDurably(ChecksumFile(snapshot->version()), base::Hex(snapshot->policy_checksum())));
  INGOT_RETURN_IF_ERROR(base::SyncDir(root));
  return base::SyncDir(dir_.path());
}

absl::Status PinnedVersions::Restore(int64_t version, weights::Publisher& publisher) const {
  std::set<int64_t> restored;
  for (const gateway::ModelOptions& model : options_.models) {
    const int64_t pinned = model.version;
    if (model.weights != gateway::ModelWeights::kPinned || pinned >= version || !restored.insert(pinned).second) {
      continue;
    }
    const absl::StatusOr<std::string> checksum = trainer::ReadSmallFile(ChecksumFile(pinned));
    // There are no saved weights if a model was pinned to this version only after the run had passed it.
    const std::string folder = checksum.ok() ? Folder(pinned) : dir_.checkpoints() + "/step-" + Number(pinned);
    absl::StatusOr<std::shared_ptr<const weights::Snapshot>> snapshot = LoadSnapshot(folder, pinned);
    if (absl::IsDataLoss(snapshot.status())) {
      return base::Annotate(snapshot.status(),
                            absl::StrCat("gateway.models pins '", model.name, "' to version ", pinned));
    }
    if (!snapshot.ok()) {
      return absl::NotFoundError(absl::StrCat(
          "gateway.models pins '", model.name, "' to version ", pinned, ", which the run has passed (it continues at ",
          version, ") and did not save: neither ", Folder(pinned), " nor a checkpoint of it can be read (",
          snapshot.status().message(), "); pin a saved version, or a future one"));
    }
    if (checksum.ok() && base::Hex((*snapshot)->policy_checksum()) != *checksum) {
      return absl::DataLossError(
          absl::StrCat(folder, " does not hold the weights that were served as version ", pinned));
    }
    INGOT_LOG(info, "version {}, which '{}' is pinned to, is read from {}", pinned, model.name, folder);
    publisher.Retain(*std::move(snapshot));
  }
  return absl::OkStatus();
}

}  // namespace ingot::app
