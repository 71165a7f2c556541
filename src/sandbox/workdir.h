// A private folder for one episode, removed with everything in it when the object goes.
//
//   root/live-<process>-<number>/   home/   HOME of the agent, empty
//                                   work/   where it runs; files of the recipe
//                                   tmp/    TMPDIR
//                                   NAME-<random>/  of AddFolder
//
// Keep() renames it to root/kept-<name> instead of removing it. What a killed process left is recognised by the pid in
// its name and removed by RemoveStale, so a root belongs to one machine (and one PID namespace) at a time. Symbolic
// links are removed, never followed, also when a file is written. Not thread safe; different objects are independent.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::sandbox {

class WorkDir {
 public:
  // Makes `root` too, if it is not there.
  static absl::StatusOr<WorkDir> Create(const std::string& root);
  ~WorkDir();
  WorkDir(WorkDir&& other) noexcept;
  WorkDir& operator=(WorkDir&& other) noexcept;

  // Absolute.
  const std::string& path() const { return path_; }
  std::string home() const { return path_ + "/home"; }
  std::string work() const { return path_ + "/work"; }
  std::string tmp() const { return path_ + "/tmp"; }

  // Writes work/`relative`, making folders on the way. INVALID_ARGUMENT for a path that leaves work/. A text that
  // begins with "#!" becomes executable.
  absl::Status WriteFile(const std::string& relative, std::string_view content) const;

  // Reads work/`relative`. NOT_FOUND; RESOURCE_EXHAUSTED above `limit_bytes`; INVALID_ARGUMENT if it is no regular file
  // (a pipe would block, a link could show what the agent may not read).
  absl::StatusOr<std::string> ReadFile(const std::string& relative, int64_t limit_bytes) const;

  // A new, empty folder beside work/, under a name that nobody could have written to before. Absolute.
  absl::StatusOr<std::string> AddFolder(const std::string& name) const;

  // Writes the file `name` beside work/, anew: what the agent may have put in its place, a pipe that would block or a
  // link, is removed.
  absl::Status WriteBeside(const std::string& name, std::string_view content) const;

  // Returns the new path; from then on nothing is removed.
  absl::StatusOr<std::string> Keep(const std::string& name);

 private:
  explicit WorkDir(std::string path) : path_(std::move(path)) {}
  void Remove();
  std::string path_;  // empty: nothing owned
};

// Removes the folders under `root` that processes which are gone have left. Returns how many; a missing root has none.
int RemoveStale(const std::string& root);

}  // namespace ingot::sandbox
