// A LocalSandbox is a sandbox of the LocalSubstrate: folders, a uid, a control group, and a first process that lives as
// long as the sandbox.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "sandbox/groups/control_groups.h"
#include "sandbox/groups/freezer.h"
#include "sandbox/sandbox_launcher.h"
#include "sandbox/substrate.h"
#include "sandbox/trees/layers.h"
#include "sandbox/trees/workdir.h"
#include "sandbox/uid_range.h"

namespace ingot::sandbox {

// A uid that returns to its range when the last sandbox or snapshot with it is gone.
class UidLease {
 public:
  // `range`: null = the uid is not returned.
  UidLease(UidRange* range, int64_t uid) : range_(range), uid_(uid) {}
  ~UidLease() {
    if (range_ != nullptr) range_->Give(uid_);
  }
  UidLease(const UidLease&) = delete;
  UidLease& operator=(const UidLease&) = delete;
  int64_t uid() const { return uid_; }

 private:
  UidRange* const range_;
  const int64_t uid_;
};

class LocalSnapshot final : public Snapshot {
 public:
  absl::Status WriteTar(const ByteSink& sink) const override;

  // The layers' files belong to this uid; files of other uids are left out of archives. Released after the layers are
  // gone.
  std::shared_ptr<const UidLease> uid;
  std::string image;
  int64_t disk_bytes = 0;                            // the limit of the sandbox and of an archive; 0 = none
  std::vector<std::shared_ptr<const Layer>> layers;  // the top one first
};

// The facts that all sandboxes of a substrate share. They outlive the sandboxes.
struct LocalGround {
  SubstrateOptions options;
  std::string work_root;    // without links
  std::string known_users;  // /etc/passwd
  ProbeResult probe_result;
  std::unique_ptr<UidRange> uids;         // null: sandboxes have Ingot's uid
  std::unique_ptr<ControlGroups> groups;  // null: sandboxes have no totals
  std::unique_ptr<Freezers> freezers;     // null: a running command cannot be stopped for a snapshot
  std::unique_ptr<SandboxLauncher> launcher;
  Measure left_out = Measure::kNone;  // of the walls, for tests
};

// The outputs of a sandbox's companions. They have no names in the sandbox while it runs: commands that have Ingot's uid
// could open them.
class CompanionLogs {
 public:
  // A new output in the sandbox's folder.
  absl::StatusOr<Fd> Add(const Fd& folder);
  // Gives the outputs names in the sandbox's folder, whose path is `path`. REQUIRES: no process of the sandbox is left.
  void Name(const Fd& folder, const std::string& path) const;

 private:
  std::vector<Fd> logs_;  // in the order of Add
};

class LocalSandbox final : public Sandbox {
 public:
  static absl::StatusOr<std::unique_ptr<LocalSandbox>> Make(LocalGround& ground, const SandboxOptions& options);
  ~LocalSandbox() override;

  const std::string& work() const override { return work_; }
  const std::string& home() const override { return home_; }
  const std::string& tmp() const override { return tmp_; }
  std::string InsideUrl(const std::string& url) const override;
  absl::Status WriteFile(const std::string& relative, std::string_view content) override;
  absl::StatusOr<std::string> ReadFile(const std::string& relative, int64_t limit_bytes) override;
  absl::StatusOr<std::string> AddFolder(const std::string& name) override;
  Fd TakeListener() override { return std::move(opened_.listener); }
  absl::StatusOr<std::string> ReadBound(const std::string& folder, const std::string& relative,
                                        int64_t limit_bytes) override;
  absl::Status FillBound(const std::string& folder, const std::string& source) override;
  absl::Status ClearBound(const std::string& folder, const std::string& inner) override;
  absl::StatusOr<std::shared_ptr<const Snapshot>> TakeSnapshot() override;
  absl::StatusOr<Outcome> Run(const Command& command, const Limits& limits, const Cancellation* cancel) override;
  int64_t MemoryKills() const override { return group_.has_value() ? group_->MemoryKills() : 0; }
  absl::StatusOr<Companion> StartCompanion(const Command& command, const Limits& limits) override;
  absl::StatusOr<Fd> NewSocket() override;
  absl::StatusOr<std::string> KeepFolders(const std::string& name,
                                          const std::map<std::string, std::string>& beside) override;

 private:
  LocalSandbox(LocalGround& ground, SandboxOptions options) : ground_(ground), options_(std::move(options)) {}

  absl::Status MakeFolders();
  absl::Status MakeGroups();
  absl::Status FillFromSnapshot(const LocalSnapshot& snapshot);
  // Starts the first process. A sandbox whose first process died gets another one.
  absl::Status Open() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Opens the sandbox again if its first process died.
  absl::Status EnsureOpen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  StartOptions StartOf(const Command& command, const Limits& limits) const;
  // The status of a command that did not start.
  absl::Status NotStarted(const LaunchFailure& failure, const Command& command) const;
  bool MayHaveChanged(const Command& command) const;
  // Ends the first process and waits for its end.
  void Close() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status MakeUpper();
  // Processes of the sandbox may run, and change its files.
  bool IsBusy() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return runs_ || has_companions_; }
  // Gives the layer the files of upper/ by a rename. REQUIRES: !IsBusy().
  absl::Status MoveInto(const Layer& layer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Gives the layer copies. The sandbox's processes are frozen meanwhile.
  absl::Status CopyInto(const Layer& layer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CopyParts(const Layer& layer) const;
  // Marks a failure at the sandbox's own folder as a sandbox fault if agents may have caused it, since they have
  // Ingot's uid. Agents with another uid can change only what is in work/, home/ and tmp/.
  absl::Status FolderFault(absl::Status status) const;
  absl::StatusOr<Fd> OpenFolder() const;
  std::vector<std::string> LayerParts() const;
  DiskLimits disk_limits() const;
  const char* MarkOfOpaque() const;
  bool has_uid_per_snapshot() const { return ground_.probe_result.root_folder; }

  LocalGround& ground_;
  const SandboxOptions options_;
  bool layered_ = false;
  std::string image_;
  std::shared_ptr<const UidLease> uid_;  // null: Ingot's own
  std::vector<std::shared_ptr<const Layer>> layers_;
  std::string path_, work_, home_, tmp_;
  std::optional<WorkDir> folder_;
  std::optional<ControlGroup> group_;
  std::unique_ptr<Freezer> freezer_;  // before its control group goes
  mutable int gateway_port_ = 0;
  CompanionLogs logs_;

  // Guards the first process against a snapshot that is taken while a command runs or begins.
  base::Mutex mu_;
  bool runs_ ABSL_GUARDED_BY(mu_) = false;
  bool has_companions_ ABSL_GUARDED_BY(mu_) = false;  // they end with the next command
  OpenedSandbox opened_;                              // mu_ guards its socket; the rest changes only between commands
};

}  // namespace ingot::sandbox
