#include "sandbox/snapshot_tar.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "sandbox/layers.h"
#include "sandbox/spawn.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBlock = 512;
constexpr size_t kReadBytes = 256 << 10;
constexpr int64_t kMostOctalSize = (int64_t{1} << 33) - 1;  // eleven octal digits
constexpr char kDeleted[] = ".wh.";
constexpr char kOpaque[] = ".wh..wh..opq";

enum class Kind : char { kFile = '0', kLink = '2', kFolder = '5', kPax = 'x' };

// The header's fields, in place and in order.
struct Header {
  char name[100], mode[8], uid[8], gid[8], size[12], time[12], sum[8], type, link[100], magic[6], version[2];
  char user[32], group[32], major[8], minor[8], prefix[155], rest[12];
};
static_assert(sizeof(Header) == kBlock);

void Octal(char* field, size_t bytes, uint64_t number) {
  std::snprintf(field, bytes, "%0*llo", static_cast<int>(bytes - 1), static_cast<unsigned long long>(number));
}

std::string HeaderOf(const std::string& name, const std::string& link, Kind kind, uint64_t mode, int64_t size,
                     int64_t time) {
  Header header = {};
  name.copy(header.name, sizeof(header.name));
  link.copy(header.link, sizeof(header.link));
  Octal(header.mode, sizeof(header.mode), mode & 07777);
  Octal(header.uid, sizeof(header.uid), 0);
  Octal(header.gid, sizeof(header.gid), 0);
  Octal(header.size, sizeof(header.size), static_cast<uint64_t>(std::min(size, kMostOctalSize)));
  Octal(header.time, sizeof(header.time), static_cast<uint64_t>(std::clamp<int64_t>(time, 0, kMostOctalSize)));
  header.type = static_cast<char>(kind);
  std::memcpy(header.magic, "ustar", 6);
  std::memcpy(header.version, "00", 2);
  std::memset(header.sum, ' ', sizeof(header.sum));
  const char* const bytes = reinterpret_cast<const char*>(&header);
  uint64_t sum = 0;
  for (size_t i = 0; i < kBlock; ++i) sum += static_cast<unsigned char>(bytes[i]);
  Octal(header.sum, 7, sum);
  return {bytes, kBlock};
}

// A record of a pax header: its length, which counts its own digits, a name and a value.
std::string PaxRecord(std::string_view name, const std::string& value) {
  const size_t rest = name.size() + value.size() + 3;  // the space, the sign and the end of the line
  size_t length = rest;
  while (std::to_string(length).size() + rest != length) length = std::to_string(length).size() + rest;
  std::string record = std::to_string(length) + " ";
  record += name;
  return record + "=" + value + "\n";
}

std::string Padding(int64_t size) { return std::string((kBlock - size % kBlock) % kBlock, '\0'); }

// Something that is in a folder of the layers.
struct Entry {
  struct stat info = {};
  std::string path;                  // in the highest layer that has it
  std::vector<std::string> folders;  // a folder's: top first
  bool opaque = false;               // a folder's: it hides that of a folder below all layers
};

class TarWriter {
 public:
  explicit TarWriter(const ByteSink& sink) : sink_(sink) {}

  absl::Status Write(const TarPart& part) {
    marks_deleted_ = part.marks_deleted;
    Entry top;
    for (const std::string& layer : part.layers) {
      struct stat info;
      if (lstat(layer.c_str(), &info) != 0) continue;  // an early layer of a room that had no such part
      if (top.folders.empty()) top.info = info;
      top.folders.push_back(layer);
    }
    return top.folders.empty() ? absl::OkStatus() : WriteFolder(part.name, top);
  }
  absl::Status End() { return sink_(std::string(2 * kBlock, '\0')); }

 private:
  static absl::Status Unreadable(const std::string& path) {
    const absl::Status why = ErrnoStatus(errno, absl::StrCat("cannot read ", path, " of a snapshot"));
    return absl::UnavailableError(why.message());
  }

  absl::Status WriteHead(std::string name, const std::string& link, Kind kind, const struct stat& info, int64_t size) {
    if (kind == Kind::kFolder) name += "/";
    std::string pax;
    if (name.size() > sizeof(Header::name)) pax += PaxRecord("path", name);
    if (link.size() > sizeof(Header::link)) pax += PaxRecord("linkpath", link);
    if (size > kMostOctalSize) pax += PaxRecord("size", std::to_string(size));
    std::string head;
    if (!pax.empty()) {
      const auto length = static_cast<int64_t>(pax.size());
      head = HeaderOf("PaxHeaders/entry", "", Kind::kPax, 0644, length, info.st_mtime) + pax + Padding(length);
    }
    return sink_(head + HeaderOf(name, link, kind, info.st_mode, size, info.st_mtime));
  }

  // The entries of the folder by name: the highest layer's file, or the folders of all layers down to one that hides the
  // others. `deleted`: names that a layer hides and no higher one has again.
  absl::Status List(const Entry& folder, std::map<std::string, Entry>& entries, std::set<std::string>& deleted) {
    std::set<std::string> closed;  // lower layers add nothing to them
    for (const std::string& layer : folder.folders) {
      std::error_code error;
      for (fs::directory_iterator it(layer, error), end; !error && it != end; it.increment(error)) {
        const std::string name = it->path().filename().string();
        if (closed.contains(name)) continue;
        struct stat info;
        if (lstat(it->path().c_str(), &info) != 0) return Unreadable(it->path().string());
        const bool is_folder = S_ISDIR(info.st_mode);
        const bool hides = S_ISCHR(info.st_mode) && info.st_rdev == 0;
        const bool known = entries.contains(name);
        if (!is_folder) closed.insert(name);
        if (known && !is_folder) continue;
        if (hides) {
          deleted.insert(name);
          continue;
        }
        Entry& entry = entries[name];
        if (!known) {
          entry.info = info;
          entry.path = it->path().string();
        }
        if (is_folder) entry.folders.push_back(it->path().string());
        if (!is_folder || !IsOpaque(it->path().string())) continue;
        entry.opaque = true;
        closed.insert(name);
      }
      if (error) return absl::UnavailableError(absl::StrCat("cannot read ", layer, ": ", error.message()));
    }
    return absl::OkStatus();
  }

  absl::Status WriteMark(const std::string& name) {
    struct stat info = {};
    info.st_mode = S_IFREG | 0644;
    return WriteHead(name, "", Kind::kFile, info, 0);
  }

  absl::Status WriteFolder(const std::string& name, const Entry& folder) {
    INGOT_RETURN_IF_ERROR(WriteHead(name, "", Kind::kFolder, folder.info, 0));
    if (marks_deleted_ && folder.opaque) INGOT_RETURN_IF_ERROR(WriteMark(absl::StrCat(name, "/", kOpaque)));
    std::map<std::string, Entry> entries;
    std::set<std::string> deleted;
    INGOT_RETURN_IF_ERROR(List(folder, entries, deleted));
    for (const std::string& gone : deleted) {
      if (marks_deleted_) INGOT_RETURN_IF_ERROR(WriteMark(absl::StrCat(name, "/", kDeleted, gone)));
    }
    for (const auto& [child, entry] : entries) {
      const std::string path = absl::StrCat(name, "/", child);
      if (S_ISDIR(entry.info.st_mode)) INGOT_RETURN_IF_ERROR(WriteFolder(path, entry));
      if (S_ISREG(entry.info.st_mode)) INGOT_RETURN_IF_ERROR(WriteFile(path, entry));
      if (S_ISLNK(entry.info.st_mode)) INGOT_RETURN_IF_ERROR(WriteLink(path, entry));
    }
    return absl::OkStatus();
  }

  absl::Status WriteLink(const std::string& name, const Entry& entry) {
    char target[PATH_MAX];
    const ssize_t length = readlink(entry.path.c_str(), target, sizeof(target));
    if (length < 0) return Unreadable(entry.path);
    return WriteHead(name, std::string(target, static_cast<size_t>(length)), Kind::kLink, entry.info, 0);
  }

  absl::Status WriteFile(const std::string& name, const Entry& entry) {
    const Fd file(open(entry.path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!file.valid()) return Unreadable(entry.path);
    const int64_t size = entry.info.st_size;
    INGOT_RETURN_IF_ERROR(WriteHead(name, "", Kind::kFile, entry.info, size));
    buffer_.resize(kReadBytes);
    for (int64_t at = 0; at < size;) {
      const auto most = static_cast<size_t>(std::min<int64_t>(size - at, kReadBytes));
      const ssize_t got = read(file.get(), buffer_.data(), most);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return Unreadable(entry.path);
      if (got == 0) return absl::UnavailableError(absl::StrCat(entry.path, " of a snapshot became shorter"));
      INGOT_RETURN_IF_ERROR(sink_({buffer_.data(), static_cast<size_t>(got)}));
      at += got;
    }
    const std::string padding = Padding(size);
    return padding.empty() ? absl::OkStatus() : sink_(padding);
  }

  const ByteSink& sink_;
  bool marks_deleted_ = false;
  std::string buffer_;
};

}  // namespace

absl::Status WriteTar(const std::vector<TarPart>& parts, const ByteSink& sink) {
  TarWriter writer(sink);
  for (const TarPart& part : parts) INGOT_RETURN_IF_ERROR(writer.Write(part));
  return writer.End();
}

}  // namespace ingot::sandbox
