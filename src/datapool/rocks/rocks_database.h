// The records of a shard in RocksDB, with its errors translated to absl::Status. After a failed write, Recover closes
// the files and reopens them, read-only for as long as they cannot be written. With StoreOptions::read_only, they are
// never written: the database shows the files as they were at one moment during Open.
//
// Thread safe. A Reader or Batch holds the files open. Recover waits for existing ones to end, and new ones wait for
// Recover, so that a stream of readers cannot keep it waiting. A thread holds one Reader or Batch at a time.
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
  // Creates the folder and the files when the pool is first opened. Errors are the same as OpenPool's.
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
  // Opens files that another process may write.
  absl::Status OpenUnlocked();
  // Returns text that identifies the state of the tables: it changes with every table that RocksDB adds or deletes.
  std::string TablesState() const;
  void CloseFiles();
  // FAILED_PRECONDITION: the files have tables that this schema does not know. Names the schema that they were made
  // with.
  absl::Status CheckTables(const rocksdb::Options& rocks) const;
  std::string Place() const { return "the pool at " + options_.path; }
  // Makes writes return `error` until Recover succeeds.
  void Fail(const absl::Status& error);
  // A lock under which db_ is not replaced.
  std::shared_lock<std::shared_mutex> Enter() const;
  absl::Status Translate(const rocksdb::Status& status) const;
  absl::Status Damaged(const std::string& how) const;
  // DATA_LOSS: the folder's files have lost records, and RocksDB would start without them. `thorough`: also if RocksDB
  // rejects a file. That check reads everything that RocksDB reads to open the files.
  absl::Status CheckFiles(bool thorough) const;

  const StoreOptions options_;
  const base::Clock& clock_;
  rocksdb::Env* const env_;
  mutable base::Mutex entry_;     // taken before mu_: a waiting Recover holds it, so that new readers wait for Recover
  mutable std::shared_mutex mu_;  // exclusive: db_ is replaced
  std::unique_ptr<rocksdb::DB> db_;
  std::array<rocksdb::ColumnFamilyHandle*, kFamilies> families_{};
  std::atomic<bool> failed_{false};
  bool read_only_ = false;
  absl::Status error_;  // the result of writes while failed_
  std::chrono::nanoseconds next_attempt_{0};
};

}  // namespace ingot::datapool
