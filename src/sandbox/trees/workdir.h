// Owns one episode's private folder. The destructor removes the folder and its contents.
//
//   root/live-<process>-<number>/   home/   the agent's HOME, initially empty
//                                   work/   the agent's working directory with the recipe's files
//                                   tmp/    TMPDIR
//                                   NAME-<random>/  created by AddFolder
//
// If there is an owner, home/, work/, and tmp/ belong to its uid, and the folder around them belongs to this process.
// The owner cannot enter other folders of `root`. Detach() renames the folder to root/kept-<name>, so it is not
// removed. RemoveStale removes folders of killed processes, using the pids in their names, so a root must belong to
// only one machine and PID namespace at a time. Symbolic links are never followed. Files owned by other uids are not
// read, because an agent may have linked to a file that it cannot read. Not thread safe, but different objects are
// independent.
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
  // Also creates `root` if it is missing. `owner` is a uid, also used as the gid; nullopt = use this process's
  // ids.
  static absl::StatusOr<WorkDir> Create(const std::string& root, std::optional<uid_t> owner = std::nullopt);
  ~WorkDir();
  WorkDir(WorkDir&& other) noexcept;
  WorkDir& operator=(WorkDir&& other) noexcept;

  // Returns the absolute path.
  const std::string& path() const { return path_; }
  std::string home() const { return path_ + "/home"; }
  std::string work() const { return path_ + "/work"; }
  std::string tmp() const { return path_ + "/tmp"; }

  // Opens the folder itself, for access to its contents (base/open_file.h). Returns UNAVAILABLE if it no longer exists.
  absl::StatusOr<Fd> Open() const;

  // Writes work/`relative`. Creates parent folders and replaces any file, link, or pipe with that name. If the content
  // begins with "#!", the file is executable. Returns INVALID_ARGUMENT if the path leads outside work/.
  absl::Status WriteFile(const std::string& relative, std::string_view content) const;

  // Reads work/`relative`. Returns NOT_FOUND if it does not exist, OUT_OF_RANGE if it is larger than `limit_bytes`, and
  // INVALID_ARGUMENT if it is not a regular file, because a pipe would block, and a link could lead to a file that the
  // agent may not read.
  absl::StatusOr<std::string> ReadFile(const std::string& relative, int64_t limit_bytes) const;

  // Same as ReadFile, but for a file in another folder next to work/.
  absl::StatusOr<std::string> ReadFileOf(const std::string& folder, const std::string& relative,
                                         int64_t limit_bytes) const;

  // Creates a folder that is private to the owner, at `path` inside this folder. If `path` has several components, this
  // process must own the parents.
  absl::Status MakeFolder(const std::string& path) const;

  // Replaces the files in the folder `name`, next to work/, with those in `source`, a folder that belongs to this
  // process. The owner may change all of the files and execute those that begin with "#!". The owner's processes may be
  // running.
  absl::Status Fill(const std::string& name, const std::string& source) const;

  // Empties `folder`, which is next to work/, and creates the folder `inner` in it. Only the owner can enter either.
  // Returns FAILED_PRECONDITION if this object did not create `folder`.
  absl::Status ClearFolder(const std::string& folder, const std::string& inner) const;

  // From now on, work/ is read and written through this descriptor, as processes in another mount namespace see it.
  // REQUIRES: the descriptor stays open while it is used.
  void SetView(int work);

  // Creates an empty folder next to work/ and returns its absolute path. The name has a random part, so no process can
  // have written to it before.
  absl::StatusOr<std::string> AddFolder(const std::string& name) const;

  // Writes the file `name` next to work/. First removes any existing file, because the agent may have put a link or a
  // pipe there.
  absl::Status WriteNextToWork(const std::string& name, std::string_view content) const;

  // Renames the folder to kept-`name` and returns its path. This object no longer removes it. Replaces an older folder
  // with that name. The owner can no longer enter the folder.
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

// Removes the folders under `root` whose processes have exited. Returns the number of removed folders, or 0 if the root
// does not exist.
int RemoveStale(const std::string& root);

}  // namespace ingot::sandbox
