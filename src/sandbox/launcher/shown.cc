#include "sandbox/launcher/shown.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/launcher/left_out.h"
#include "sandbox/launcher/mounts.h"

// <sys/mount.h> and <linux/mount.h> of Debian 12 define the same types.
extern "C" int mount(const char*, const char*, const char*, unsigned long, const void*);
extern "C" int umount2(const char*, int);

namespace ingot::sandbox::launcher {
namespace {

constexpr int kDetach = 2;

constexpr int kMaxTaken = 512;
struct TakenPath {
  char* path = nullptr;
  int tree = -1;
  bool is_folder = false;
  bool keeps_owners = false;  // its sockets must be covered
  bool is_source = false;
  char link[256] = "";  // target of a link
} taken[kMaxTaken];
int taken_count = 0;

constexpr int kMaxWalked = 1'000'000;
int walked = 0;

constexpr char kEmptyFile[] = "./.empty";

int Add(const char* path, int tree, bool is_folder, bool keeps_owners) {
  if (tree < 0) return 0;
  if (taken_count == kMaxTaken) return E2BIG;
  TakenPath& added = taken[taken_count++];
  added.path = strdup(path);
  added.tree = tree;
  added.is_folder = is_folder;
  added.keeps_owners = keeps_owners;
  return added.path == nullptr ? ENOMEM : 0;
}

// Copies one mount without those below it.
int TakeMount(const char* path, bool is_folder, int nobody) {
  const int tree = CloneTree(path, false);
  return Add(path, tree, is_folder, tree >= 0 && MapOwners(tree, nobody, false) != 0);
}

// "\040" is a space. mountinfo writes blanks and backslashes in this way.
void Unescape(char* text) {
  char* to = text;
  for (const char* from = text; *from != 0; ++to) {
    if (from[0] == '\\' && from[1] != 0 && from[2] != 0 && from[3] != 0) {
      *to = static_cast<char>((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
      from += 4;
    } else {
      *to = *from++;
    }
  }
  *to = 0;
}

// Returns false if another mount covers it or it does not exist.
bool IsMountRoot(const char* path, bool& is_folder) {
  struct statx info;
  if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &info) != 0) return false;
  is_folder = S_ISDIR(info.stx_mode);
  return (info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

bool IsTaken(const char* path, int from) {
  for (int i = from; i < taken_count; ++i) {
    if (strcmp(taken[i].path, path) == 0) return true;
  }
  return false;
}

int ByLength(const void* left, const void* right) {
  const size_t a = strlen(static_cast<const TakenPath*>(left)->path),
               b = strlen(static_cast<const TakenPath*>(right)->path);
  return a < b ? -1 : a > b ? 1 : 0;
}

// Copies the mounts below `path` one by one, because one of them cannot map owners, such as a device or the cover of a
// hidden file.
int TakeMountsBelow(const char* path, int nobody) {
  FILE* const mounts = fopen("/proc/self/mountinfo", "re");
  if (mounts == nullptr) return errno;
  const int first = taken_count;
  const size_t length = strlen(path);
  char* line = nullptr;
  size_t size = 0;
  int error = 0;
  while (error == 0 && getline(&line, &size, mounts) > 0) {
    char point[4096];
    if (sscanf(line, "%*s %*s %*s %*s %4095s", point) != 1) continue;
    Unescape(point);
    bool is_folder = false;
    const bool is_below = strncmp(point, path, length) == 0 && point[length] == '/';
    if (!is_below || IsTaken(point, first) || !IsMountRoot(point, is_folder)) continue;
    error = TakeMount(point, is_folder, nobody);
  }
  free(line);
  fclose(mounts);
  // A mount is placed before those below it.
  qsort(taken + first, static_cast<size_t>(taken_count - first), sizeof(TakenPath), ByLength);
  return error;
}

int TakeLink(const char* path) {
  if (taken_count == kMaxTaken) return E2BIG;
  TakenPath& added = taken[taken_count++];
  added.path = strdup(path);
  const ssize_t size = readlink(path, added.link, sizeof(added.link) - 1);
  added.link[size > 0 ? size : 0] = 0;
  return added.path == nullptr ? ENOMEM : 0;
}

int PlaceLink(const char* target, const char* path) {
  char parent[4096];
  strcpy(parent, path);
  if (char* const slash = strrchr(parent, '/'); slash != nullptr && slash != parent) {
    *slash = 0;
    if (const int error = MakePlace(parent, true)) return error;
  }
  return symlink(target, path) == 0 || errno == EEXIST ? 0 : errno;
}

// `path` is relative to the current directory.
int PlaceOne(const TakenPath& one, const char* path) {
  if (one.link[0] != 0) return PlaceLink(one.link, path);
  if (one.tree < 0) return 0;
  int error = SetAttributes(one.tree,
                            FlagOf<uint64_t>(Measure::kShownNoSuid, MOUNT_ATTR_NOSUID) |
                                FlagOf<uint64_t>(Measure::kShownReadOnly, MOUNT_ATTR_RDONLY),
                            true);
  // A path below a shown one already exists.
  if (error == 0 && access(path, F_OK) != 0) error = MakePlace(path, one.is_folder);
  if (error == 0) error = Place(one.tree, path);
  close(one.tree);
  // It is in a folder that other users cannot access, so no sandbox could enter it.
  return error == EACCES ? 0 : error;
}

int CoverFile(const char* path) {
  const int empty = CloneTree(kEmptyFile, false);
  if (empty < 0) return errno;
  int error = SetAttributes(empty,
                            FlagOf<uint64_t>(Measure::kChannelCoversReadOnly, MOUNT_ATTR_RDONLY) | MOUNT_ATTR_NOSUID |
                                MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
                            false);
  if (error == 0) error = Place(empty, path);
  close(empty);
  return error == ENOENT ? 0 : error;  // it no longer exists
}

bool IsChannel(int folder, const dirent& entry) {
  if (entry.d_type != DT_UNKNOWN) return entry.d_type == DT_SOCK || entry.d_type == DT_FIFO;
  struct stat info;
  return fstatat(folder, entry.d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
         (S_ISSOCK(info.st_mode) || S_ISFIFO(info.st_mode));
}

bool IsFolderOf(int folder, const dirent& entry, dev_t device) {
  if (entry.d_type != DT_DIR && entry.d_type != DT_UNKNOWN) return false;
  struct stat info;
  return fstatat(folder, entry.d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode) &&
         info.st_dev == device;
}

// Covers the sockets and FIFOs below a folder on one file system. `path` has space for 4096 bytes. Skips folders that
// the process building the root folder cannot read.
int CoverChannels(char* path, dev_t device) {
  DIR* const folder = opendir(path);
  if (folder == nullptr) return 0;
  const size_t length = strlen(path);
  int error = 0;
  while (const dirent* const entry = error == 0 && walked < kMaxWalked ? readdir(folder) : nullptr) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    ++walked;
    const bool is_channel = IsChannel(dirfd(folder), *entry);
    if (!is_channel && !IsFolderOf(dirfd(folder), *entry, device)) continue;
    if (length + strlen(entry->d_name) + 2 > 4096) continue;
    snprintf(path + length, 4096 - length, "/%s", entry->d_name);
    error = is_channel ? CoverFile(path) : CoverChannels(path, device);
    path[length] = 0;
  }
  closedir(folder);
  return error;
}

// A mount, so that one call removes everything mounted below it. No sandbox uid may enter it.
int MakeSources() {
  const bool has_some = taken_count > 0 && taken[taken_count - 1].is_source;
  if (!has_some) return 0;
  char path[64];
  snprintf(path, sizeof(path), ".%s", kSources);
  if (const int error = MakePlace(path, true)) return error;
  return mount("ingot", path, "tmpfs", 0, "mode=0700,size=1m,nr_inodes=4096") == 0 ? 0 : errno;
}

int CoverChannelsOf(const TakenPath& one) {
  char path[4096];
  snprintf(path, sizeof(path), ".%s", one.path);
  struct stat info;
  if (lstat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return 0;
  return CoverChannels(path, info.st_dev);
}

}  // namespace

int TakeShown(const char* path, int nobody) {
  struct stat info;
  if (lstat(path, &info) != 0) return 0;
  if (S_ISLNK(info.st_mode)) return TakeLink(path);
  const bool is_folder = S_ISDIR(info.st_mode);
  const int whole = CloneTree(path, true);
  if (nobody < 0 || (!is_folder && !S_ISREG(info.st_mode))) return Add(path, whole, is_folder, is_folder);
  if (whole < 0 || MapOwners(whole, nobody, true) == 0) return Add(path, whole, is_folder, false);
  close(whole);
  const int error = TakeMount(path, is_folder, nobody);
  return error == 0 && is_folder ? TakeMountsBelow(path, nobody) : error;
}

int TakeSource(const char* path) {
  const int tree = CloneTree(path, true);
  if (tree < 0) return 0;
  if (const int error = Add(path, tree, true, false)) return error;
  taken[taken_count - 1].is_source = true;
  return 0;
}

int LeaveSources() {
  if (!Raises(Measure::kSourcesDetached)) return 0;
  return umount2(kSources, kDetach) == 0 || errno == EINVAL || errno == ENOENT ? 0 : errno;
}

int PlaceShown() {
  if (const int error = MakePlace(kEmptyFile, false)) return error;
  if (const int error = MakeSources()) return error;
  char path[4096];
  for (int i = 0; i < taken_count; ++i) {
    const int size = snprintf(path, sizeof(path), ".%s%s", taken[i].is_source ? kSources : "", taken[i].path);
    if (size >= static_cast<int>(sizeof(path))) return ENAMETOOLONG;
    if (const int error = PlaceOne(taken[i], path)) return error;
  }
  for (int i = 0; i < taken_count; ++i) {
    if (!taken[i].keeps_owners || !Raises(Measure::kChannelsCovered)) continue;
    if (const int error = CoverChannelsOf(taken[i])) return error;
  }
  return 0;
}

}  // namespace ingot::sandbox::launcher
