// A WorkDir is a private folder of one episode; its destructor removes the folder and everything in it.
//
//   root/live-<process>-<number>/   home/   HOME of the agent, empty at first
//                                   work/   the agent's working folder, with the files of the recipe
//                                   tmp/    TMPDIR
//                                   NAME-<random>/  of AddFolder
//
// With an owner, home/, work/ and tmp/ belong to that uid, and the folder around them to this process. The owner cannot
// enter other folders of `root`. Detach() renames the folder to root/kept-<name> instead of removing it. RemoveStale
// removes folders of killed processes, which it knows by the pid in their names: a root belongs to one machine and one
// PID namespace at a time. No symbolic link is followed, neither by a removal nor by a read or write. What belongs to
// another uid than the owner is not read: an agent may have linked to a file that it cannot read. Not thread safe;
// different objects are independent.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "sandbox/spawn.h"

namespace ingot::sandbox {

class WorkDir {
 public:
  // Makes `root` too if it is missing. `owner` is a uid and the number of its group; nullopt = this process's.
  static absl::StatusOr<WorkDir> Create(const std::string& root, std::optional<uid_t> owner = std::nullopt);
  ~WorkDir();
  WorkDir(WorkDir&& other) noexcept;
  WorkDir& operator=(WorkDir&& other) noexcept;

  // Absolute.
  const std::string& path() const { return path_; }
  std::string home() const { return path_ + "/home"; }
  std::string work() const { return path_ + "/work"; }
  std::string tmp() const { return path_ + "/tmp"; }

  // The folder itself, to reach what is in it (base/open_file.h). UNAVAILABLE: it is gone.
  absl::StatusOr<Fd> Open() const;

  // Writes work/`relative` and makes the folders on the way; replaces a file, link or pipe of that name.
  // INVALID_ARGUMENT: the path leaves work/. A text that begins with "#!" becomes executable.
  absl::Status WriteFile(const std::string& relative, std::string_view content) const;

  // Reads work/`relative`. NOT_FOUND; OUT_OF_RANGE above `limit_bytes`; INVALID_ARGUMENT if it is not a regular
  // file: a pipe would block, and a link could lead to a file that the agent may not read.
  absl::StatusOr<std::string> ReadFile(const std::string& relative, int64_t limit_bytes) const;

  // The same for a file of another folder next to work/.
  absl::StatusOr<std::string> ReadFileOf(const std::string& folder, const std::string& relative,
                                         int64_t limit_bytes) const;

  // Makes a private folder of the owner at `path`, below this one: of one part, or of parts that this process owns.
  absl::Status MakeFolder(const std::string& path) const;

  // Replaces the files of the folder `name` next to work/ with the files of `source`, a folder of this process. The
  // owner may change all of them, and execute those that begin with "#!". Its processes may run meanwhile.
  absl::Status Fill(const std::string& name, const std::string& source) const;

  // Empties `folder`, which lies next to work/, and makes the folder `inner` in it. Only the owner can enter either.
  // FAILED_PRECONDITION: this object did not make the folder.
  absl::Status ClearFolder(const std::string& folder, const std::string& inner) const;

  // From here on work/ is read and written through this descriptor, which outlives its use: as processes in
  // another mount namespace see it.
  void SetView(int work);

  // Makes an empty folder next to work/ and returns its absolute path. Its name has a random part, so that no process
  // can have written to it before.
  absl::StatusOr<std::string> AddFolder(const std::string& name) const;

  // Writes the file `name` next to work/. Removes first any file of that name: the agent may have put a link or a pipe
  // there.
  absl::Status WriteBeside(const std::string& name, std::string_view content) const;

  // Renames the folder to kept-`name`, which this object no longer removes, and returns its path. Replaces an older
  // one. An owner can no longer enter it.
  absl::StatusOr<std::string> Detach(const std::string& name);

 private:
  WorkDir(std::string path, std::optional<uid_t> owner) : path_(std::move(path)), owner_(owner) {}
  absl::Status GiveToOwner(int fd, const std::string& name) const;
  void Remove();
  absl::StatusOr<Fd> OpenWork() const;
  absl::StatusOr<std::string> ReadBelow(const Fd& base, const std::string& relative, int64_t limit_bytes) const;
  std::string path_;       // empty = no folder is owned
  std::string work_view_;  // empty = work()
  std::optional<uid_t> owner_;
};

// Removes the folders under `root` whose processes are gone. Returns their number; 0 for a missing root.
int RemoveStale(const std::string& root);

}  // namespace ingot::sandbox
