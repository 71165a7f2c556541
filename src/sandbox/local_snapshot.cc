// Implements LocalSandbox's snapshots, and sandboxes that start from one.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/open_file.h"
#include "sandbox/local_sandbox.h"
#include "sandbox/sandbox_fault.h"
#include "sandbox/trees/copy_tree.h"
#include "sandbox/trees/layers.h"

namespace ingot::sandbox {
namespace {

constexpr size_t kMaxLayers = 32;  // more layers are merged into one, because each slows down every file lookup

std::optional<uid_t> UidOf(const std::shared_ptr<const UidLease>& lease) {
  return lease != nullptr ? std::optional(static_cast<uid_t>(lease->uid())) : std::nullopt;
}

// Opens a folder in `parent` for CopyTree to fill. Creates it if it is missing.
absl::StatusOr<Fd> OpenPart(const Fd& parent, const std::string& part) {
  mkdirat(parent.get(), part.c_str(), 0700);
  Fd folder = base::OpenBeneath(parent.get(), part, base::kOpenFolder, base::PathLinks::kNone);
  if (!folder.valid()) return ErrnoStatus(errno, absl::StrCat("cannot create the folder ", part, " of a snapshot"));
  return folder;
}

absl::Status MakeFolder(const Fd& parent, const std::string& name, mode_t mode) {
  if (mkdirat(parent.get(), name.c_str(), mode) == 0 || errno == EEXIST) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("cannot make ", name));
}

// Replaces all layers, which are ordered from top to bottom, with one. On an error, they are kept.
absl::Status Merge(const std::string& work_root, const std::vector<std::string>& parts,
                   std::vector<std::shared_ptr<const Layer>>& layers) {
  INGOT_ASSIGN_OR_RETURN(Layer made, Layer::Create(work_root, std::nullopt));
  const auto whole = std::make_shared<const Layer>(std::move(made));
  INGOT_ASSIGN_OR_RETURN(const Fd to, whole->Open());
  for (const std::string& part : parts) {
    INGOT_ASSIGN_OR_RETURN(const Fd folder, OpenPart(to, part));
    INGOT_RETURN_IF_ERROR(MergeLayers({layers.rbegin(), layers.rend()}, part, folder.get()));
  }
  layers = {whole};
  return absl::OkStatus();
}

}  // namespace

absl::Status LocalSnapshot::WriteTar(const ByteSink& sink) const {
  std::vector<TarPart> parts = {{.name = "work", .layers = {}}, {.name = "home", .layers = {}}};
  if (!image.empty()) parts.push_back({.name = "root", .layers = {}, .marks_deleted = true});
  for (TarPart& part : parts) {
    for (const auto& layer : layers) part.layers.push_back(absl::StrCat(layer->path(), "/", part.name));
  }
  return sandbox::WriteTar(parts, {.file_bytes = disk_bytes, .only_of = UidOf(uid)}, sink);
}

const char* LocalSandbox::MarkOfOpaque() const {
  return ground_.probe_result.user_namespace ? kOpaqueOfUsers : kOpaqueOfRoot;
}

std::vector<std::string> LocalSandbox::LayerParts() const {
  std::vector<std::string> parts = {"work", "home"};
  if (!image_.empty()) parts.push_back("root");
  return parts;
}

absl::Status LocalSandbox::MakeUpper() {
  INGOT_ASSIGN_OR_RETURN(const Fd sandbox, folder_->Open());
  for (const char* const folder : {"upper", "overlay", "empty"})
    INGOT_RETURN_IF_ERROR(MakeFolder(sandbox, folder, 0755));
  const Fd upper = base::OpenBeneath(sandbox.get(), "upper", base::kOpenFolder, base::PathLinks::kNone),
           overlay = base::OpenBeneath(sandbox.get(), "overlay", base::kOpenFolder, base::PathLinks::kNone);
  if (!upper.valid() || !overlay.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open a folder of ", path_));
  for (const std::string& part : LayerParts()) {
    if (mkdirat(upper.get(), part.c_str(), 0700) != 0) return ErrnoStatus(errno, absl::StrCat("cannot make ", part));
    const Fd made = base::OpenBeneath(upper.get(), part, base::kOpenFolder, base::PathLinks::kNone);
    const auto owner = UidOf(uid_);
    if (!made.valid() || (owner.has_value() && fchown(made.get(), *owner, *owner) != 0) ||
        (part == "root" && fchmod(made.get(), 0755) != 0)) {
      return ErrnoStatus(errno, absl::StrCat("cannot change the owner of ", path_, "/upper/", part));
    }
    INGOT_RETURN_IF_ERROR(MakeFolder(overlay, part, 0700));
  }
  return absl::OkStatus();
}

absl::Status LocalSandbox::FillFromSnapshot(const LocalSnapshot& snapshot) {
  layers_ = snapshot.layers;
  if (!image_.empty() && options_.is_pristine) {
    for (auto& layer : layers_) {
      INGOT_ASSIGN_OR_RETURN(layer, OneFolderOf(layer, options_.kept_folder, ground_.work_root, MarkOfOpaque()));
    }
  }
  if (layered_) return absl::OkStatus();
  INGOT_ASSIGN_OR_RETURN(const Fd from, layers_[0]->Open());
  INGOT_ASSIGN_OR_RETURN(const Fd sandbox, folder_->Open());
  for (const std::string part : {"work", "home"}) {
    INGOT_ASSIGN_OR_RETURN(const Fd to, OpenPart(sandbox, part));
    INGOT_RETURN_IF_ERROR(
        CopyTree(from.get(), part, to.get(), {.only_of = UidOf(snapshot.uid), .gives_to = UidOf(uid_)}));
  }
  return absl::OkStatus();
}

absl::Status LocalSandbox::FolderFault(absl::Status status) const {
  return uid_ == nullptr ? AsSandboxFault(std::move(status)) : status;
}

absl::StatusOr<Fd> LocalSandbox::OpenFolder() const {
  auto opened = folder_->Open();
  return opened.ok() ? std::move(opened) : absl::StatusOr<Fd>(FolderFault(opened.status()));
}

absl::Status LocalSandbox::CopyParts(const Layer& layer) const {
  INGOT_ASSIGN_OR_RETURN(const Fd sandbox, OpenFolder());
  INGOT_ASSIGN_OR_RETURN(const Fd to, layer.Open());
  const Fd from = layered_ ? base::OpenBeneath(sandbox.get(), "upper", base::kOpenFolder, base::PathLinks::kNone)
                           : Fd(fcntl(sandbox.get(), F_DUPFD_CLOEXEC, 3));
  if (!from.valid()) return FolderFault(ErrnoStatus(errno, absl::StrCat("cannot open ", path_, "/upper")));
  for (const std::string& part : LayerParts()) {
    INGOT_ASSIGN_OR_RETURN(const Fd made, OpenPart(to, part));
    INGOT_RETURN_IF_ERROR(CopyTree(from.get(), part, made.get(), {.only_of = UidOf(uid_)}));
  }
  return absl::OkStatus();
}

absl::Status LocalSandbox::CopyInto(const Layer& layer) {
  if (!IsBusy()) return CopyParts(layer);
  if (freezer_ == nullptr) {
    return absl::FailedPreconditionError(
        "a command is running, but no control group can freeze it for a snapshot (the log of the agents' start gives "
        "the reason): take the snapshot between commands, or run ingot as root or in a delegated control group");
  }
  INGOT_ASSIGN_OR_RETURN(const ScopedFreeze still, freezer_->Freeze());
  INGOT_RETURN_IF_ERROR(CopyParts(layer));
  if (freezer_->IsFrozen()) return absl::OkStatus();
  return absl::UnavailableError("the command ended while the snapshot was taken: take it again");
}

absl::Status LocalSandbox::MoveInto(const Layer& layer) {
  Close();
  opened_ = {};
  INGOT_ASSIGN_OR_RETURN(const Fd sandbox, OpenFolder());
  INGOT_ASSIGN_OR_RETURN(const Fd to, layer.Open());
  const Fd upper = base::OpenBeneath(sandbox.get(), "upper", base::kOpenFolder, base::PathLinks::kNone);
  if (!upper.valid()) return FolderFault(ErrnoStatus(errno, absl::StrCat("cannot open ", path_, "/upper")));
  for (const std::string& part : LayerParts()) {
    // An agent with this process's uid could have put a link there.
    if (!base::OpenBeneath(upper.get(), part, O_PATH | O_DIRECTORY, base::PathLinks::kNone).valid())
      return FolderFault(ErrnoStatus(errno, absl::StrCat("cannot freeze ", path_, "/upper/", part)));
    // A user cannot move a folder that an agent has made inaccessible.
    struct stat info;
    const bool is_closed = fstatat(upper.get(), part.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
                           (info.st_mode & 0300) != 0300 && geteuid() != 0;
    if (is_closed) fchmodat(upper.get(), part.c_str(), info.st_mode | 0700, AT_SYMLINK_NOFOLLOW);
    if (renameat(upper.get(), part.c_str(), to.get(), part.c_str()) != 0)
      return FolderFault(ErrnoStatus(errno, absl::StrCat("cannot freeze ", path_, "/upper/", part)));
    if (is_closed) fchmodat(to.get(), part.c_str(), info.st_mode & 07777, AT_SYMLINK_NOFOLLOW);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Snapshot>> LocalSandbox::TakeSnapshot() {
  auto snapshot = std::make_shared<LocalSnapshot>();
  snapshot->uid = uid_;
  snapshot->image = image_;
  snapshot->disk_bytes = disk_limits().bytes;
  INGOT_ASSIGN_OR_RETURN(Layer made, Layer::Create(ground_.work_root, std::nullopt));
  const auto layer = std::make_shared<const Layer>(std::move(made));
  base::MutexLock lock(mu_);
  const bool moves = layered_ && !IsBusy();
  const absl::Status filled = moves ? MoveInto(*layer) : CopyInto(*layer);
  if (filled.ok()) {
    snapshot->layers.push_back(layer);
    if (layered_) snapshot->layers.insert(snapshot->layers.end(), layers_.begin(), layers_.end());
  }
  absl::Status merged;
  if (filled.ok() && snapshot->layers.size() > kMaxLayers)
    merged = Merge(ground_.work_root, LayerParts(), snapshot->layers);
  if (moves) {
    if (filled.ok()) layers_ = snapshot->layers;  // all of them, if they could not be merged
    INGOT_RETURN_IF_ERROR(filled);
    INGOT_RETURN_IF_ERROR(MakeUpper());
    INGOT_RETURN_IF_ERROR(Open());
  }
  INGOT_RETURN_IF_ERROR(filled);
  INGOT_RETURN_IF_ERROR(merged);
  return snapshot;
}

}  // namespace ingot::sandbox
