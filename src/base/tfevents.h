// Writes each step's scalars to TensorBoard event files. A file is a sequence of TFRecords that contain serialized
// tensorflow.Event messages. The writer encodes only the fields that it needs:
//
//   record = length (8 bytes LE) | masked crc32c of the length (4 LE) | data | masked crc32c of data (4 LE)
//   Event  = 1: wall_time (double) 2: step (varint) 3: file_version (string) 5: Summary 7: SessionLog
//   Summary = 1: repeated Value {1: tag (string) 2: simple_value (float)};  SessionLog = 1: status (START is 1)
//
// Each record is written with one write(). TensorBoard skips a record that was truncated by a crash. Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/status.h"

namespace ingot::base {

// Computes CRC-32C (Castagnoli) as in RFC 3720: Crc32c("123456789") = 0xE3069283.
uint32_t Crc32c(std::string_view bytes);

class TfEventsWriter {
 public:
  // Creates a file in `directory`, which is created if missing. Its name makes TensorBoard read it after earlier files.
  // If `first_step` > 0, writes a session start, which makes TensorBoard drop steps >= first_step in earlier files
  // because the resumed run repeats them.
  static absl::StatusOr<std::unique_ptr<TfEventsWriter>> Create(const std::string& directory, int64_t first_step,
                                                                const Clock& clock);
  ~TfEventsWriter();
  TfEventsWriter(const TfEventsWriter&) = delete;
  TfEventsWriter& operator=(const TfEventsWriter&) = delete;

  // Writes one event with all `scalars`.
  absl::Status WriteScalars(int64_t step, std::span<const std::pair<std::string, double>> scalars);

  const std::string& path() const { return path_; }

 private:
  TfEventsWriter(std::string path, int fd, const Clock& clock) : path_(std::move(path)), fd_(fd), clock_(clock) {}
  absl::Status WriteRecord(std::string_view data);

  const std::string path_;
  const int fd_;
  const Clock& clock_;
};

}  // namespace ingot::base
