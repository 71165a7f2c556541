// Reads that can be trusted. If the database's server may change, a read is confirmed or repeated.
//
//   read ──▶ source still leads? ──▶ a commit that started after the read is acknowledged ──▶ result
//                no: read again        fails: UNAVAILABLE        (if the server replicates)
//
// A replaced primary that is not fenced gets no acknowledgement from a synchronous standby, so its rows are never
// trusted. Concurrent reads share the commit with each other and with mutations.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "base/status.h"
#include "datapool/commit_queue.h"
#include "datapool/database.h"

namespace ingot::datapool {

inline absl::Status ReadError(const absl::Status& status) { return status; }
template <typename T>
absl::Status ReadError(const absl::StatusOr<T>& result) {
  return result.status();
}

// Returns `result`, and adds the server's name to errors about the server's data.
template <typename Result>
Result NameSource(Result result, const ReadSource& source) {
  const absl::Status status = ReadError(result);
  if (!absl::IsNotFound(status) && !absl::IsDataLoss(status)) return result;
  return base::Annotate(status, "PostgreSQL at " + source.name());
}

// Runs `read`, which takes a reader and returns a Status or StatusOr. Reruns it if the server changes in the meantime.
// REQUIRES: the thread does not hold a Reader or Batch.
template <typename Function>
std::invoke_result_t<Function, const Database::Reader&> ConfirmedRead(const Database& database, CommitQueue& queue,
                                                                      const Function& read) {
  constexpr int kTries = 4;
  const auto commit = [&] {
    return queue.Run([](Database::Batch&, v1::PoolStatusResponse&) { return absl::OkStatus(); });
  };
  const bool confirms = database.shared() && database.CheckWritable().ok();
  for (int i = 1;; ++i) {
    std::shared_ptr<const ReadSource> source;
    auto result = [&] {
      const std::unique_ptr<Database::Reader> reader = database.Read();
      source = reader->source();
      return read(*reader);
    }();
    const absl::Status status = ReadError(result);
    const bool answered = source != nullptr && !absl::IsUnavailable(status);
    if (!confirms) return source == nullptr ? std::move(result) : NameSource(std::move(result), *source);
    if (!answered || !source->leads() || source->must_commit()) {
      // An empty commit, which finds the leading server and waits for its standbys.
      INGOT_RETURN_IF_ERROR(base::Annotate(commit(), "confirming a read with a commit on the leading server"));
    }
    if (answered && source->leads()) return NameSource(std::move(result), *source);
    if (i < kTries) continue;
    if (!status.ok()) return status;
    return absl::UnavailableError(absl::StrCat("the server changed during each of ", kTries, " reads"));
  }
}

}  // namespace ingot::datapool
