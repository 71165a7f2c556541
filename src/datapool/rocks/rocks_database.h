// Stores a shard's records in RocksDB and translates its errors to absl::Status. After a failed write, Recover closes
// the files and reopens them, read-only if they still cannot be written. With StoreOptions::read_only, the files are
// never written, and the database shows their state as of some moment during Open.
//
// Thread safe. A Reader or Batch keeps the files open. Recover waits until existing ones are destroyed, and new ones
// wait for Recover, so a steady stream of readers cannot block it. A thread holds at most one Reader or Batch.
#pragma once

#include <rocksdb/db.h>

#include <array>
#include <atomic>
#include <memory>
#include <shared_mutex>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "datapool/database.h"
#include "datapool/store.h"

namespace ingot::datapool {

class RocksDatabase final : public Database {
 public:
  // Opens the files, and creates them and their directory on first use. Fails with the same errors as OpenPool.
  static absl::StatusOr<std::unique_ptr<RocksDatabase>> Open(const StoreOptions& options, const std::string& layout,
                                                             const base::Clock& clock, rocksdb::Env* env);
  ~RocksDatabase() override;

  std::unique_ptr<Reader> Read() const override;
  std::unique_ptr<Batch> NewBatch() override;
  absl::Status Write(Batch& batch) override;
  bool failed() const override { return failed_; }
  absl::Status Recover() override;
  absl::Status CheckWritable() const override;

 private:
  class RocksReader;
  class RocksBatch;

  RocksDatabase(const StoreOptions& options, const base::Clock& clock, rocksdb::Env* env);
  absl::Status OpenFiles(bool read_only);
  // Opens files that another process may be writing.
  absl::Status OpenUnlocked();
  // Returns a string that changes whenever RocksDB adds or deletes a table.
  std::string TablesState() const;
  void CloseFiles();
  // Returns FAILED_PRECONDITION, with the name of the schema that created the files, if they have tables that this
  // schema does not define.
  absl::Status CheckTables(const rocksdb::Options& rocks) const;
  std::string Place() const { return "the pool at " + options_.path; }
  // Makes writes return `error` until Recover succeeds.
  void Fail(const absl::Status& error);
  // Returns a lock that keeps db_ from being replaced.
  std::shared_lock<std::shared_mutex> Enter() const;
  absl::Status Translate(const rocksdb::Status& status) const;
  absl::Status Damaged(const std::string& how) const;
  // Returns DATA_LOSS if the folder's files have lost records and RocksDB would start without them. With `thorough`,
  // also returns it if RocksDB rejects a file. That check reads everything that RocksDB reads when it opens the files.
  absl::Status CheckFiles(bool thorough) const;

  const StoreOptions options_;
  const base::Clock& clock_;
  rocksdb::Env* const env_;
  mutable base::Mutex entry_;     // acquired before mu_; held by Recover while it waits, so new readers wait
  mutable std::shared_mutex mu_;  // exclusive while db_ is replaced
  std::unique_ptr<rocksdb::DB> db_;
  std::array<rocksdb::ColumnFamilyHandle*, kFamilies> families_{};
  std::atomic<bool> failed_{false};
  bool read_only_ = false;
  absl::Status error_;  // returned by writes while failed_
  std::chrono::nanoseconds next_attempt_{0};
};

}  // namespace ingot::datapool
