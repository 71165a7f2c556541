// RocksDB behind the few operations the store needs, with its errors told in the project's terms and its failures
// survived: after a failed write the database is closed and opened again, read-only as long as that does not succeed.
//
// Thread safe. Readers hold a Reader for as long as they read; reopening waits for those that there are, and new ones
// wait for it: however many keep reading, it has its turn. A thread holds one Reader or Batch at a time.
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
  // A consistent view of everything.
  class Reader {
   public:
    Reader(Reader&&) = default;
    ~Reader();
    // NOT_FOUND without a text if the key is not there.
    absl::StatusOr<std::string> Get(Family family, const std::string& key) const;
    // Visits the keys from `from` on that start with `prefix` (empty: all), in order, until `visit` returns false.
    absl::Status Scan(Family family, const std::string& prefix, const std::string& from,
                      const std::function<bool(std::string_view key, std::string_view value)>& visit) const;
    // Bytes of all files.
    int64_t BytesOnDisk() const;

   private:
    friend class Database;
    explicit Reader(const Database& database);
    const Database* database_;
    std::shared_lock<std::shared_mutex> lock_;
    const rocksdb::Snapshot* snapshot_ = nullptr;
  };

  // Changes that see each other and are written together or not at all.
  class Batch {
   public:
    // NOT_FOUND without a text if the key is not there.
    absl::StatusOr<std::string> Get(Family family, const std::string& key);
    absl::StatusOr<bool> Has(Family family, const std::string& key);
    void Put(Family family, const std::string& key, const std::string& value);
    void Delete(Family family, const std::string& key);
    absl::Status Scan(Family family, const std::string& prefix,
                      const std::function<bool(std::string_view key, std::string_view value)>& visit);
    // Nested marks: Rollback forgets what came since the last Mark, Keep forgets the mark.
    void Mark() { batch_.SetSavePoint(); }
    absl::Status Rollback();
    void Keep() { batch_.PopSavePoint(); }
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

  // Durable when it returns OK. Otherwise nothing is visible, and Recover is due.
  absl::Status Write(Batch& batch);

  // True after a failed write.
  bool failed() const { return failed_; }
  // Tries to write again; the error that stands otherwise, at once if the last attempt is too recent. Not to be called
  // with a Reader or Batch in hand; by one thread at a time.
  absl::Status Recover();

 private:
  Database(const StoreOptions& options, const base::Clock& clock, rocksdb::Env* env);
  absl::Status OpenFiles(bool read_only);
  void CloseFiles();
  // FAILED_PRECONDITION: the files have tables that this schema does not know. Names the schema that they were made with.
  absl::Status CheckTables(const rocksdb::Options& rocks) const;
  absl::Status CheckSchema(const std::string& layout);
  absl::Status AnotherSchema(const std::string& schema) const;
  // From now on `error` stands, and Recover is due.
  void Fail(const absl::Status& error);
  // Keeps db_ as it is.
  std::shared_lock<std::shared_mutex> Enter() const;
  absl::Status Translate(const rocksdb::Status& status) const;

  const StoreOptions options_;
  const base::Clock& clock_;
  rocksdb::Env* const env_;
  mutable base::Mutex entry_;     // taken before mu_, by readers for a moment: whoever waits for mu_ holds them up
  mutable std::shared_mutex mu_;  // exclusive: db_ is replaced
  std::unique_ptr<rocksdb::DB> db_;
  std::array<rocksdb::ColumnFamilyHandle*, kFamilies> families_{};
  std::atomic<bool> failed_{false};
  bool read_only_ = false;
  absl::Status error_;  // that stands while failed_
  std::chrono::nanoseconds next_attempt_{0};
};

}  // namespace ingot::datapool
