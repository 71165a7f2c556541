#include "base/tfevents.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_format.h"

namespace ingot::base {
namespace {

static_assert(std::endian::native == std::endian::little, "fixed-width fields are copied as they lie in memory");

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78u : 0);
    table[i] = crc;
  }
  return table;
}

uint32_t MaskedCrc(std::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

template <typename T>
void PutFixed(T value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void PutVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
void PutTag(int field, WireType type, std::string& out) { PutVarint(field << 3 | type, out); }

void PutBytes(int field, std::string_view bytes, std::string& out) {
  PutTag(field, kBytes, out);
  PutVarint(bytes.size(), out);
  out += bytes;
}

std::string EventHead(double wall_time, int64_t step) {
  std::string event;
  PutTag(1, kFixed64, event);
  PutFixed(wall_time, event);
  PutTag(2, kVarint, event);
  PutVarint(static_cast<uint64_t>(step), event);
  return event;
}

}  // namespace

uint32_t Crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = MakeCrcTable();
  uint32_t crc = ~0u;
  for (const unsigned char byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ byte) & 0xFF];
  return ~crc;
}

absl::StatusOr<std::unique_ptr<TfEventsWriter>> TfEventsWriter::Create(const std::string& directory, int64_t first_step,
                                                                       const Clock& clock) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot create folder ", directory, ": ", error.message()));
  char host[256] = "localhost";
  gethostname(host, sizeof(host) - 1);
  const int64_t seconds = clock.UnixNanos() / 1'000'000'000;
  for (int count = 0; count < 1000; ++count) {
    const std::string path = absl::StrFormat("%s/events.out.tfevents.%010d.%s.%03d", directory, seconds, host, count);
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) return absl::UnavailableError(absl::StrCat("cannot create ", path, ": ", std::strerror(errno)));
    std::unique_ptr<TfEventsWriter> writer(new TfEventsWriter(path, fd, clock));
    std::string version = EventHead(static_cast<double>(clock.UnixNanos()) * 1e-9, 0);
    PutBytes(3, "brain.Event:2", version);
    INGOT_RETURN_IF_ERROR(writer->WriteRecord(version));
    if (first_step > 0) {
      std::string start = EventHead(static_cast<double>(clock.UnixNanos()) * 1e-9, first_step);
      std::string session;
      PutTag(1, kVarint, session);
      PutVarint(1, session);
      PutBytes(7, session, start);
      INGOT_RETURN_IF_ERROR(writer->WriteRecord(start));
    }
    return writer;
  }
  return absl::ResourceExhaustedError(absl::StrCat(directory, " already has 1,000 event files for this second"));
}

TfEventsWriter::~TfEventsWriter() { close(fd_); }

absl::Status TfEventsWriter::WriteScalars(int64_t step, std::span<const std::pair<std::string, double>> scalars) {
  std::string summary, value;
  for (const auto& [tag, number] : scalars) {
    value.clear();
    PutBytes(1, tag, value);
    PutTag(2, kFixed32, value);
    PutFixed(static_cast<float>(number), value);
    PutBytes(1, value, summary);
  }
  std::string event = EventHead(static_cast<double>(clock_.UnixNanos()) * 1e-9, step);
  PutBytes(5, summary, event);
  return WriteRecord(event);
}

absl::Status TfEventsWriter::WriteRecord(std::string_view data) {
  std::string record;
  record.reserve(data.size() + 16);
  PutFixed<uint64_t>(data.size(), record);
  PutFixed<uint32_t>(MaskedCrc(std::string_view(record.data(), 8)), record);
  record += data;
  PutFixed<uint32_t>(MaskedCrc(data), record);
  const off_t start = lseek(fd_, 0, SEEK_END);
  for (size_t done = 0; done < record.size();) {
    const ssize_t n = write(fd_, record.data() + done, record.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const std::string cause = std::strerror(errno);
      if (start >= 0 && ftruncate(fd_, start) != 0) {
        return absl::DataLossError(absl::StrCat(path_, " now ends with an incomplete record: ", cause));
      }
      return absl::UnavailableError(absl::StrCat("cannot write ", path_, ": ", cause));
    }
    done += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

}  // namespace ingot::base
