// Storage interface for one shard's records: ordered key families, snapshots, and atomic batches of changes.
// Implemented for RocksDB (rocks_database.h) and PostgreSQL (postgres_database.h).
//
// Every implementation must guarantee:
//   1. The keys in a family are ordered by their bytes.
//   2. A Reader sees a snapshot: every write that completed before the reader was created, and no later writes.
//   3. A Batch sees its own changes on top of the current state, and nothing else writes while it exists.
//   4. Write returns OK once the batch is durable. After an error, the batch may or may not be durable.
//   5. After an error from Write, failed() is true until Recover succeeds.
//   6. A Reader with a source returns that server's data. ReadSource defines when to trust it.
//
// Thread safe. Batch, Write, and Recover are used by one thread at a time. A thread holds one Reader or Batch at a
// time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "datapool/keys.h"
#include "datapool/store.h"

namespace ingot::datapool {

// The server behind a Reader, if leadership may change. The reader's result can be trusted if the server still leads
// afterwards. Thread safe.
class ReadSource {
 public:
  virtual ~ReadSource() = default;
  virtual bool leads() const = 0;
  // True = the read is confirmed only by a write that starts after it and is acknowledged while leads() is true.
  virtual bool must_commit() const = 0;
  virtual std::string name() const = 0;  // for error messages
};

class Database {
 public:
  // Returns false to end a scan.
  using Visit = std::function<bool(std::string_view key, std::string_view value)>;

  class Reader {
   public:
    virtual ~Reader() = default;
    // Returns NOT_FOUND without a message if the key does not exist.
    virtual absl::StatusOr<std::string> Get(Family family, const std::string& key) const = 0;
    // Visits the keys >= `from` that start with `prefix`, in order. Empty `prefix` = all keys. `visit` may call Get.
    virtual absl::Status Scan(Family family, const std::string& prefix, const std::string& from,
                              const Visit& visit) const = 0;
    // Returns the greatest key, or NOT_FOUND without a message if there is none.
    virtual absl::StatusOr<std::string> LastKey(Family family) const = 0;
    // Returns DATA_LOSS with recovery instructions.
    virtual absl::Status Damaged(const std::string& how) const = 0;
    virtual int64_t BytesOnDisk() const = 0;
    // Null = the records have a single location, or no server was reached.
    virtual std::shared_ptr<const ReadSource> source() const { return nullptr; }
  };

  class Batch {
   public:
    virtual ~Batch() = default;
    // Returns NOT_FOUND without a message if the key does not exist.
    virtual absl::StatusOr<std::string> Get(Family family, const std::string& key) = 0;
    absl::StatusOr<bool> Has(Family family, const std::string& key) {
      const absl::StatusOr<std::string> value = Get(family, key);
      if (absl::IsNotFound(value.status())) return false;
      INGOT_RETURN_IF_ERROR(value.status());
      return true;
    }
    virtual void Put(Family family, const std::string& key, const std::string& value) = 0;
    virtual void Delete(Family family, const std::string& key) = 0;
    virtual absl::Status Scan(Family family, const std::string& prefix, const Visit& visit) = 0;
    // Savepoints nest. A rollback undoes all changes since the last savepoint and removes it. A release just removes
    // it.
    virtual void SetSavePoint() = 0;
    virtual absl::Status RollbackToSavePoint() = 0;
    virtual void ReleaseSavePoint() = 0;
    virtual bool empty() = 0;
    virtual size_t bytes() = 0;
  };

  virtual ~Database() = default;
  virtual std::unique_ptr<Reader> Read() const = 0;
  virtual std::unique_ptr<Batch> NewBatch() = 0;
  virtual absl::Status Write(Batch& batch) = 0;
  virtual bool failed() const = 0;
  // Makes the records writable again. Returns the previous error immediately if the previous attempt was very recent.
  // REQUIRES: the thread does not hold a Reader or Batch.
  virtual absl::Status Recover() = 0;
  // Returns FAILED_PRECONDITION if the records were permanently opened read-only.
  virtual absl::Status CheckWritable() const { return absl::OkStatus(); }
  // Returns whether other processes also write these records.
  virtual bool shared() const { return false; }
};

// Returns the layout string stored in a shard's records.
std::string LayoutName(int shard, int shards);

// Opens a shard's records in options.backend, and creates them on first use. `env` is the RocksDB environment; null =
// the default. Fails with the same errors as OpenPool. REQUIRES: `clock` outlives the database.
absl::StatusOr<std::unique_ptr<Database>> OpenDatabase(const StoreOptions& options, int shard, const base::Clock& clock,
                                                       rocksdb::Env* env = nullptr);

// The record schema, stored in the `meta` family.
inline constexpr char kSchema[] = "ingot datapool 4";

// Writes the schema and layout into empty records. Returns FAILED_PRECONDITION if the records at `place` have a
// different schema or layout, or are not a pool. REQUIRES: nothing else opens new records at the same time.
absl::Status CheckSchema(Database& database, const std::string& place, const std::string& layout, bool read_only);
absl::Status AnotherSchema(const std::string& place, const std::string& schema);

}  // namespace ingot::datapool
