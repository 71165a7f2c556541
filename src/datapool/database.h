// The records of one shard as the store needs them: families of keys in order, snapshots, and changes that are written
// together or not at all. Two implementations hold them: RocksDB (rocks_database.h) and PostgreSQL
// (postgres_database.h).
//
// Obligations of an implementation:
//   1. Keys of a family are ordered by their bytes.
//   2. A Reader sees one state: all writes before it was made, and no later ones.
//   3. A Batch sees its own changes over the current state, and nothing else writes while it exists.
//   4. Write returns OK once the batch is durable. After an error the batch may be durable or not.
//   5. After an error of Write, failed() holds until Recover succeeds.
//   6. A Reader with a source returns the data of that server. ReadSource says when to trust it.
// Thread safe; Batch, Write and Recover are used by one thread at a time. A thread holds one Reader or Batch at a time.
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

// The server that a reader reads, if the records are on servers that may or may not lead. The reader's result is
// trusted if the server still leads afterwards. Thread safe.
class ReadSource {
 public:
  virtual ~ReadSource() = default;
  virtual bool leads() const = 0;
  // True = only a commit that begins after the read shows whether the server leads: a write acknowledged while leads().
  virtual bool must_commit() const = 0;
  virtual std::string name() const = 0;  // for errors
};

class Database {
 public:
  // False ends a scan.
  using Visit = std::function<bool(std::string_view key, std::string_view value)>;

  class Reader {
   public:
    virtual ~Reader() = default;
    // NOT_FOUND without a text if the key is not there.
    virtual absl::StatusOr<std::string> Get(Family family, const std::string& key) const = 0;
    // Visits the keys >= `from` that start with `prefix` (empty = all keys), in order. A visitor may call Get.
    virtual absl::Status Scan(Family family, const std::string& prefix, const std::string& from,
                              const Visit& visit) const = 0;
    // The greatest key; NOT_FOUND without a text if there is none.
    virtual absl::StatusOr<std::string> LastKey(Family family) const = 0;
    // DATA_LOSS, and how to recover.
    virtual absl::Status Damaged(const std::string& how) const = 0;
    virtual int64_t BytesOnDisk() const = 0;
    // null = the records are in one place, or no server was reached.
    virtual std::shared_ptr<const ReadSource> source() const { return nullptr; }
  };

  class Batch {
   public:
    virtual ~Batch() = default;
    // NOT_FOUND without a text if the key is not there.
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
    // Save points nest. A rollback undoes the changes since the last save point and removes it; a release only removes
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
  // Makes the records writable again. Returns the last error at once if the last attempt was a moment ago. REQUIRES:
  // the thread holds no Reader or Batch.
  virtual absl::Status Recover() = 0;
  // FAILED_PRECONDITION: the records are open read-only, for good.
  virtual absl::Status CheckWritable() const { return absl::OkStatus(); }
  // Other processes write these records too.
  virtual bool shared() const { return false; }
};

// The layout that a shard's records name.
std::string LayoutName(int shard, int shards);

// The records of a shard where options.backend keeps them; makes them at the first opening. `env`: RocksDB's view of
// the machine; null = the real one. Errors: OpenPool's. REQUIRES: `clock` outlives the database.
absl::StatusOr<std::unique_ptr<Database>> OpenDatabase(const StoreOptions& options, int shard, const base::Clock& clock,
                                                       rocksdb::Env* env = nullptr);

// The schema of the records, in the family `meta`.
inline constexpr char kSchema[] = "ingot datapool 4";

// Writes schema and layout into empty records. FAILED_PRECONDITION: the records at `place` have another schema or
// layout, or are not a pool. REQUIRES: nothing else opens new records meanwhile.
absl::Status CheckSchema(Database& database, const std::string& place, const std::string& layout, bool read_only);
absl::Status AnotherSchema(const std::string& place, const std::string& schema);

}  // namespace ingot::datapool
