// Reads and changes a shard's table `record(family, key, value)` in one transaction on a connection.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "datapool/database.h"
#include "datapool/postgres/postgres_connection.h"

namespace ingot::datapool {

// SQL statements for one shard. They use only standard SQL, so other servers that speak the PostgreSQL protocol can
// also store a pool.
struct PostgresStatements {
  explicit PostgresStatements(const std::string& schema);

  std::string table;  // quoted, with its schema
  std::string get, scan, last, put, remove;
};

// Inserts records, replacing any with the same keys. The three lists must have the same length.
absl::Status PutRecords(PostgresConnection& connection, const PostgresStatements& sql,
                        const std::vector<int16_t>& families, const std::vector<std::string_view>& keys,
                        const std::vector<std::string_view>& values);

class PostgresReader final : public Database::Reader {
 public:
  using Return = std::function<void(std::unique_ptr<PostgresConnection>)>;

  // `connection` is in a repeatable-read transaction, or is the error that reads return. `give_back` receives it after
  // the transaction. REQUIRES: `sql` outlives the reader.
  PostgresReader(const PostgresStatements& sql, absl::StatusOr<std::unique_ptr<PostgresConnection>> connection,
                 Return give_back);
  ~PostgresReader() override;
  absl::StatusOr<std::string> Get(Family family, const std::string& key) const override;
  absl::Status Scan(Family family, const std::string& prefix, const std::string& from,
                    const Database::Visit& visit) const override;
  absl::StatusOr<std::string> LastKey(Family family) const override;
  absl::Status Damaged(const std::string& how) const override;
  int64_t BytesOnDisk() const override;
  std::shared_ptr<const ReadSource> source() const override;

 private:
  const PostgresStatements& sql_;
  absl::StatusOr<std::unique_ptr<PostgresConnection>> connection_;
  Return give_back_;
};

// Buffers a transaction's changes and sends them when it commits. Get and Scan merge them with the table.
class PostgresBatch final : public Database::Batch {
 public:
  // `ready` is OK if `connection` is in a transaction with the shard's lock. REQUIRES: all arguments outlive the batch.
  PostgresBatch(const PostgresStatements& sql, PostgresConnection* connection, absl::Status ready);
  ~PostgresBatch() override;
  absl::StatusOr<std::string> Get(Family family, const std::string& key) override;
  void Put(Family family, const std::string& key, const std::string& value) override { Change({family, key}, value); }
  void Delete(Family family, const std::string& key) override { Change({family, key}, std::nullopt); }
  absl::Status Scan(Family family, const std::string& prefix, const Database::Visit& visit) override;
  void SetSavePoint() override { save_points_.push_back(undo_.size()); }
  absl::Status RollbackToSavePoint() override;
  void ReleaseSavePoint() override { save_points_.pop_back(); }
  bool empty() override { return changes_.empty(); }
  size_t bytes() override { return bytes_; }
  // Same as PostgresConnection::Commit.
  absl::Status Commit();

 private:
  using Key = std::pair<Family, std::string>;
  using Value = std::optional<std::string>;  // nullopt = deleted

  void Change(const Key& key, Value value);

  const PostgresStatements& sql_;
  PostgresConnection* const connection_;
  const absl::Status ready_;  // the result of starting the transaction
  bool done_ = false;
  std::map<Key, Value> changes_;
  std::vector<std::pair<Key, std::optional<Value>>> undo_;  // each changed key and its previous entry in changes_
  std::vector<size_t> save_points_;                         // sizes of undo_
  size_t bytes_ = 0;
};

}  // namespace ingot::datapool
