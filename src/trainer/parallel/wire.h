// Encodes messages between ranks, which run the same binary: plain values as raw bytes, text with a length prefix,
// and the trainer's batches, calls, and sums. Does not use torch. Reading past the end sets Reader::status to
// DATA_LOSS.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/status.h"
#include "trainer/batch_source.h"
#include "trainer/metrics.h"
#include "tree/forest.h"

namespace ingot::trainer {

class Writer {
 public:
  template <typename T>
  Writer& Put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  Writer& PutText(std::string_view text) {
    Put(static_cast<uint64_t>(text.size()));
    bytes_.append(text);
    return *this;
  }
  std::string Release() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads the values in the order in which Writer wrote them. Returns zeros and empty strings past the end.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  T Get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    const std::string_view from = Cut(sizeof(T));
    if (from.size() == sizeof(T)) std::memcpy(&value, from.data(), sizeof(T));
    return value;
  }
  std::string_view GetText() { return Cut(Get<uint64_t>()); }
  bool done() const { return rest_.empty(); }
  absl::Status status() const { return status_; }

 private:
  std::string_view Cut(uint64_t size) {
    if (size > rest_.size()) {
      status_ = absl::DataLossError("a rank's message is truncated");
      rest_ = {};
      return {};
    }
    const std::string_view cut = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return cut;
  }

  std::string_view rest_;
  absl::Status status_;
};

std::string EncodeBatch(const TrainBatch& batch);
absl::StatusOr<TrainBatch> DecodeBatch(std::string_view bytes);

// Writes calls for supervised training: ids, episodes, and names, without recorded log-probs. Runs of ids shared by
// contexts are written once, and the decoded calls also share them.
void PutCalls(const std::vector<tree::CallPath>& calls, Writer& writer);
absl::StatusOr<std::vector<tree::CallPath>> ReadCalls(Reader& reader);

void PutSums(const MetricSums& sums, Writer& writer);
// Reads sums and adds them to `sums`.
void AddSums(Reader& reader, MetricSums& sums);

}  // namespace ingot::trainer
