// The folder through which a server on this machine receives weights. Each version is a model folder that is renamed
// into place once it is complete, so a server never sees an incomplete folder. One process owns it. The destructor
// removes it.
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
  // output head is written as a tensor, and config.json declares it untied. A server that reloads tied weights may keep
  // the old head.
  using WriteModel =
      std::function<absl::Status(const std::string& dir, const std::shared_ptr<const weights::Snapshot>& snapshot)>;

  // Creates the folder. Removes folders left behind by the owner's earlier processes. `owner` is a file name.
  // `write_start` writes the folder for a server's startup; null = `write_model`. Returns UNAVAILABLE, with the path
  // and the reason, if `root` cannot be used.
  static absl::StatusOr<std::unique_ptr<ExchangeFolder>> Open(const std::string& root, const std::string& owner,
                                                              WriteModel write_model, WriteModel write_start = nullptr);
  ~ExchangeFolder();
  ExchangeFolder(const ExchangeFolder&) = delete;
  ExchangeFolder& operator=(const ExchangeFolder&) = delete;

  // Returns the version's model folder. Writes it if it does not exist.
  absl::StatusOr<std::string> Write(const std::shared_ptr<const weights::Snapshot>& snapshot);
  // Returns the model folder that a server starts with. It is written once, and KeepOnly does not remove it.
  absl::StatusOr<std::string> WriteStart(const std::shared_ptr<const weights::Snapshot>& snapshot);
  void RemoveStart();  // so that WriteStart writes it again
  void Remove(const std::string& model_dir);
  // Removes all versions but these two.
  void KeepOnly(const std::string& newest, const std::string& previous);

 private:
  absl::StatusOr<std::string> WriteAs(const std::string& name, const WriteModel& write,
                                      const std::shared_ptr<const weights::Snapshot>& snapshot);
  ExchangeFolder(std::string dir, WriteModel write_model, WriteModel write_start)
      : dir_(std::move(dir)),
        write_model_(std::move(write_model)),
        write_start_(write_start == nullptr ? write_model_ : std::move(write_start)) {}

  const std::string dir_;
  const WriteModel write_model_, write_start_;
};

// Claims the server at `url` among the processes that use `root`, until the descriptor is closed. If two engines loaded
// weights into one server, each would record tokens from the other's versions. Returns FAILED_PRECONDITION if another
// engine has claimed it, and UNAVAILABLE if `root` cannot be used. Does not detect engines on other machines or with a
// different folder.
absl::StatusOr<base::Fd> ClaimServer(const std::string& root, const std::string& url);

// Returns a label for a version's weights: its number and its manifest's checksum.
std::string VersionLabel(int64_t version, uint64_t checksum);
// Labels the weights of a worker that is joining a fleet. No answer may have it.
inline std::string JoiningLabel(const std::string& label) { return "joining-" + label; }

}  // namespace ingot::engines
