// The folder through which a server on this machine gets weights: one model folder per version, written once and renamed
// into place, so that a server never sees part of one. Belongs to one process, and is removed with this object.
//
//   EXCHANGE/OWNER-PID/3-0123456789abcdef/{config.json,model.safetensors}
//
// Not thread safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/fd.h"
#include "base/status.h"
#include "weights/snapshot.h"

namespace ingot::engines {

class ExchangeFolder {
 public:
  // Writes a model folder that the server can load. It must have every tensor that the server's model has, so a tied
  // output head is written as a tensor, and config.json reports it as not tied: a server that loads tied weights again
  // may keep the old head.
  using WriteModel =
      std::function<absl::Status(const std::string& dir, const std::shared_ptr<const weights::Snapshot>& snapshot)>;

  // Creates the folder. Removes the folders of the same owner's earlier processes, which did not end cleanly. `owner` is
  // a file name. Returns UNAVAILABLE, with the path and the reason, if `root` cannot be used.
  static absl::StatusOr<std::unique_ptr<ExchangeFolder>> Open(const std::string& root, const std::string& owner,
                                                              WriteModel write_model);
  ~ExchangeFolder();
  ExchangeFolder(const ExchangeFolder&) = delete;
  ExchangeFolder& operator=(const ExchangeFolder&) = delete;

  // Returns the version's model folder, which is written if it does not exist.
  absl::StatusOr<std::string> Write(const std::shared_ptr<const weights::Snapshot>& snapshot);
  // Returns the model folder with which a server starts. It is written once, and KeepOnly leaves it.
  absl::StatusOr<std::string> WriteStart(const std::shared_ptr<const weights::Snapshot>& snapshot);
  // Removes all versions but these two.
  void KeepOnly(const std::string& newest, const std::string& previous);

 private:
  absl::StatusOr<std::string> WriteAs(const std::string& name,
                                      const std::shared_ptr<const weights::Snapshot>& snapshot);
  ExchangeFolder(std::string dir, WriteModel write_model)
      : dir_(std::move(dir)), write_model_(std::move(write_model)) {}

  const std::string dir_;
  const WriteModel write_model_;
};

// Claims the server at `url` among the processes that use `root`, until the descriptor is closed. Two engines that load
// weights into one server would record tokens of each other's versions. Returns FAILED_PRECONDITION if another engine has
// claimed it, and UNAVAILABLE if `root` cannot be used. Engines on other machines or with another folder are not seen.
absl::StatusOr<base::Fd> ClaimServer(const std::string& root, const std::string& url);

// Names a version: its number and the checksum of its manifest, which together identify the weights.
std::string VersionLabel(int64_t version, uint64_t checksum);

}  // namespace ingot::engines
