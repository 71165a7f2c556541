// RocksDB behind the few operations that the store needs, with its errors translated to absl::Status. After a failed
// write Recover closes the files and opens them again, for reading alone as long as they cannot be written. With
// StoreOptions::read_only they are never written: a Database shows the files as they were at one moment of the opening.
//
// Thread safe. A Reader or Batch holds the files open. Recover waits for the present ones to end, and new ones wait for
// Recover, so that a stream of readers cannot keep it waiting. A thread holds one Reader or Batch at a time.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/utilities/write_batch_with_index.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "datapool/keys.h"
#include "datapool/store.h"

namespace ingot::datapool {

class Database {
 public:
  // A snapshot: it sees the writes before it was made, and no later ones.
  class Reader {
   public:
    Reader(Reader&&) = default;
    ~Reader();
    // NOT_FOUND without a text if the key is not there.
    absl::StatusOr<std::string> Get(Family family, const std::string& key) const;
    // Visits the keys >= `from` that start with `prefix` (empty = all keys), in order, until `visit` returns false.
    absl::Status Scan(Family family, const std::string& prefix, const std::string& from,
                      const std::function<bool(std::string_view key, std::string_view value)>& visit) const;
    // The greatest key; NOT_FOUND without a text if there is none.
    absl::StatusOr<std::string> LastKey(Family family) const;
    // DATA_LOSS, with the way on.
    absl::Status Damaged(const std::string& how) const { return database_->Damaged(how); }
    // The size of all files.
    int64_t BytesOnDisk() const;

   private:
    friend class Database;
    explicit Reader(const Database& database);
    const Database* database_;
    std::shared_lock<std::shared_mutex> lock_;
    const rocksdb::Snapshot* snapshot_ = nullptr;
  };

  // Changes that are written together or not at all. Reads of a batch see its changes over the present state.
  class Batch {
   public:
    // NOT_FOUND without a text if the key is not there.
    absl::StatusOr<std::string> Get(Family family, const std::string& key);
    absl::StatusOr<bool> Has(Family family, const std::string& key);
    void Put(Family family, const std::string& key, const std::string& value);
    void Delete(Family family, const std::string& key);
    absl::Status Scan(Family family, const std::string& prefix,
                      const std::function<bool(std::string_view key, std::string_view value)>& visit);
    // Save points nest. A rollback undoes the changes since the last one and removes it; a release only removes it.
    void SetSavePoint() { batch_.SetSavePoint(); }
    absl::Status RollbackToSavePoint();
    void ReleaseSavePoint() { batch_.PopSavePoint(); }
    bool empty() { return batch_.GetWriteBatch()->Count() == 0; }
    size_t bytes() { return batch_.GetWriteBatch()->GetDataSize(); }

   private:
    friend class Database;
    explicit Batch(const Database& database);
    const Database* database_;
    std::shared_lock<std::shared_mutex> lock_;
    rocksdb::WriteBatchWithIndex batch_;
  };

  static absl::StatusOr<std::unique_ptr<Database>> Open(const StoreOptions& options, const std::string& layout,
                                                        const base::Clock& clock, rocksdb::Env* env);
  ~Database();

  Reader Read() const { return Reader(*this); }
  Batch NewBatch() const { return Batch(*this); }

  // OK: the batch is durable. Otherwise none of it is visible, and Recover must be called before the next write.
  absl::Status Write(Batch& batch);

  // FAILED_PRECONDITION: the files are open for reading alone, for good.
  absl::Status CheckWritable() const;
  // True after a failed write.
  bool failed() const { return failed_; }
  // Opens the files for writing again. Returns the last error at once if the last attempt is less than
  // `retry_after_error_s` old. REQUIRES: the thread holds no Reader or Batch, and no other thread is in Recover.
  absl::Status Recover();

 private:
  Database(const StoreOptions& options, const base::Clock& clock, rocksdb::Env* env);
  absl::Status OpenFiles(bool read_only);
  // Opens files that another process may write.
  absl::Status OpenUnlocked();
  // Names the state of the tables: it changes with every table that RocksDB adds or deletes.
  std::string TablesState() const;
  void CloseFiles();
  // FAILED_PRECONDITION: the files have tables that this schema does not know. Names the schema that they were made with.
  absl::Status CheckTables(const rocksdb::Options& rocks) const;
  absl::Status CheckSchema(const std::string& layout);
  absl::Status AnotherSchema(const std::string& schema) const;
  // Makes writes return `error` until Recover succeeds.
  void Fail(const absl::Status& error);
  // A lock under which db_ is not replaced.
  std::shared_lock<std::shared_mutex> Enter() const;
  absl::Status Translate(const rocksdb::Status& status) const;
  absl::Status Damaged(const std::string& how) const;
  // DATA_LOSS: the folder's files have lost records, and RocksDB would begin without them. `thorough`: or
  // RocksDB refuses a file. It reads what RocksDB reads of all files to open them.
  absl::Status CheckFiles(bool thorough) const;

  const StoreOptions options_;
  const base::Clock& clock_;
  rocksdb::Env* const env_;
  mutable base::Mutex entry_;     // taken before mu_: a waiting Recover holds it, so that new readers wait behind it
  mutable std::shared_mutex mu_;  // exclusive: db_ is replaced
  std::unique_ptr<rocksdb::DB> db_;
  std::array<rocksdb::ColumnFamilyHandle*, kFamilies> families_{};
  std::atomic<bool> failed_{false};
  bool read_only_ = false;
  absl::Status error_;  // answers writes while failed_
  std::chrono::nanoseconds next_attempt_{0};
};

}  // namespace ingot::datapool
