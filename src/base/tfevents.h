// Writes TensorBoard event files: scalars by step. The format is TFRecord framing around serialized tensorflow.Event
// messages, of which the few fields needed are encoded by hand:
//
//   record = length (8 bytes LE) | masked crc32c of those 8 (4 LE) | data | masked crc32c of data (4 LE)
//   Event  = 1: wall_time (double) 2: step (varint) 3: file_version (string) 5: Summary 7: SessionLog
//   Summary = 1: repeated Value {1: tag (string) 2: simple_value (float)};  SessionLog = 1: status (START is 1)
//
// Not thread safe. A record is written by one write(); a record cut off by a crash is skipped by TensorBoard.
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

// CRC-32C (Castagnoli), as in RFC 3720: Crc32c("123456789") = 0xE3069283.
uint32_t Crc32c(std::string_view bytes);

class TfEventsWriter {
 public:
  // Creates a new file in `directory` (made if it is not there), named so that TensorBoard reads it after the earlier
  // ones. `first_step` > 0 also writes a session start, at which TensorBoard forgets what it read for steps >=
  // first_step: that is how a resumed run replaces the steps it repeats.
  static absl::StatusOr<std::unique_ptr<TfEventsWriter>> Create(const std::string& directory, int64_t first_step,
                                                                const Clock& clock);
  ~TfEventsWriter();
  TfEventsWriter(const TfEventsWriter&) = delete;
  TfEventsWriter& operator=(const TfEventsWriter&) = delete;

  // One event holding all of `scalars`.
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
