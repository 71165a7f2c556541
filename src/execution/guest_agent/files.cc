#include "execution/guest_agent/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "execution/guest_agent/link.h"

namespace ingot::execution::guest_agent {
namespace {

// Returns an id's name from a file with lines NAME:x:ID:.., or the id itself if there is no such line. The C library's
// functions for this load modules, which a static program cannot do.
std::string NameOf(const char* file, unsigned id) {
  char line[1024];
  std::string name;
  FILE* const known = fopen(file, "re");
  while (known != nullptr && name.empty() && fgets(line, sizeof(line), known) != nullptr) {
    char* const first = strchr(line, ':');
    char* const second = first == nullptr ? nullptr : strchr(first + 1, ':');
    if (second == nullptr || strtoul(second + 1, nullptr, 10) != id) continue;
    name.assign(line, static_cast<size_t>(first - line));
  }
  if (known != nullptr) fclose(known);
  return name.empty() ? std::to_string(id) : name;
}

char TypeOf(mode_t mode) {
  if (S_ISREG(mode)) return 'f';
  if (S_ISDIR(mode)) return 'd';
  return S_ISLNK(mode) ? 'l' : 'o';
}

int AppendEntry(const std::string& path, std::string& answer) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return errno;
  char target[4096];
  ssize_t size = S_ISLNK(info.st_mode) ? readlink(path.c_str(), target, sizeof(target)) : 0;
  if (size < 0) size = 0;
  char mode[16];
  snprintf(mode, sizeof(mode), "%o", info.st_mode & 07777);
  const std::string fields[kFileFields] = {std::string(1, TypeOf(info.st_mode)),
                                           mode,
                                           std::to_string(info.st_size),
                                           std::to_string(info.st_mtim.tv_sec),
                                           std::to_string(info.st_mtim.tv_nsec),
                                           NameOf("/etc/passwd", info.st_uid),
                                           NameOf("/etc/group", info.st_gid),
                                           path,
                                           std::string(target, static_cast<size_t>(size))};
  for (const std::string& field : fields) answer.append(field.c_str(), field.size() + 1);
  return 0;
}

int ListFolder(const std::string& folder, uint32_t depth, uint32_t& entries, std::string& answer) {
  DIR* const open = opendir(folder.c_str());
  if (open == nullptr) return errno;
  std::vector<std::string> names;
  while (const dirent* const entry = readdir(open)) {
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) names.emplace_back(entry->d_name);
    if (names.size() > kMaxEntries) break;
  }
  closedir(open);
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const std::string path = folder.back() == '/' ? folder + name : folder + "/" + name;
    const size_t before = answer.size();
    if (AppendEntry(path, answer) != 0) continue;  // removed in the meantime
    if (++entries > kMaxEntries || answer.size() > kMaxPayload) return E2BIG;
    if (answer[before] == 'd' && depth > 1) {
      const int error = ListFolder(path, depth - 1, entries, answer);
      if (error == E2BIG) return error;
    }
  }
  return 0;
}

int MakeParents(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    if (mkdir(path.substr(0, slash).c_str(), 0755) != 0 && errno != EEXIST) return errno;
  }
  return 0;
}

int MakeFolder(const std::string& path) {
  if (const int error = MakeParents(path)) return error;
  return mkdir(path.c_str(), 0755) == 0 ? 0 : errno;
}

// Uses O_NONBLOCK, because opening a pipe would otherwise wait for the other end.
int OpenFile(const char* path, int flags, int& fd) {
  fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0644);
  if (fd < 0) return errno;
  struct stat info;
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) return 0;
  close(fd);
  return S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
}

int ReadFile(const char* path, const FileFacts& facts, std::string& answer) {
  int fd = -1;
  if (const int error = OpenFile(path, O_RDONLY, fd)) return error;
  answer.resize(std::min(facts.length, kFileChunk));
  const ssize_t got = pread(fd, answer.data(), answer.size(), static_cast<off_t>(facts.offset));
  const int error = errno;
  close(fd);
  if (got < 0) return error;
  answer.resize(static_cast<size_t>(got));
  return 0;
}

int WriteFile(const char* path, const FileFacts& facts, std::string_view bytes) {
  if (facts.offset == 0) {
    if (const int error = MakeParents(path)) return error;
  }
  int fd = -1;
  if (const int error = OpenFile(path, O_WRONLY | (facts.offset == 0 ? O_CREAT | O_TRUNC : 0), fd)) return error;
  uint64_t at = facts.offset;
  int error = 0;
  while (!bytes.empty() && error == 0) {
    const ssize_t wrote = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) error = wrote < 0 ? errno : ENOSPC;
    if (wrote <= 0) break;
    at += static_cast<uint64_t>(wrote);
    bytes.remove_prefix(static_cast<size_t>(wrote));
  }
  if (close(fd) != 0 && error == 0) error = errno;
  return error;
}

int RemoveOne(const char* path, const struct stat*, int, FTW*) { return remove(path) == 0 ? 0 : errno; }

int Remove(const char* path) {
  struct stat info;
  if (lstat(path, &info) != 0) return errno;
  const int result = nftw(path, RemoveOne, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
  return result < 0 ? errno : result;
}

}  // namespace

int DoFile(FileOp op, std::string_view payload, std::string& answer) {
  FileFacts facts;
  if (payload.size() < sizeof(facts)) return EINVAL;
  memcpy(&facts, payload.data(), sizeof(facts));
  payload.remove_prefix(sizeof(facts));
  const char *path = nullptr, *second = nullptr;
  if (!TakeString(payload, path) || path[0] != '/') return EINVAL;
  if (op == FileOp::kMove && (!TakeString(payload, second) || second[0] != '/')) return EINVAL;
  uint32_t entries = 0;
  switch (op) {
    case FileOp::kStat:
      return AppendEntry(path, answer);
    case FileOp::kList:
      return ListFolder(path, facts.depth, entries, answer);
    case FileOp::kRead:
      return ReadFile(path, facts, answer);
    case FileOp::kWrite:
      return WriteFile(path, facts, payload);
    case FileOp::kMakeFolder:
      return MakeFolder(path);
    case FileOp::kMove:
      if (const int error = MakeParents(second)) return error;
      if (rename(path, second) != 0) return errno;
      return AppendEntry(second, answer);
    case FileOp::kRemove:
      return Remove(path);
  }
  return EINVAL;
}

}  // namespace ingot::execution::guest_agent
