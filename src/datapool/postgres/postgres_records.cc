#include "datapool/postgres/postgres_records.h"

#include <string_view>

#include "absl/strings/numbers.h"

namespace ingot::datapool {
namespace {

constexpr int kScanRows = 256;  // per round trip

// Returns the smallest key after all keys that start with `prefix`. nullopt = no bound.
std::optional<std::string> BoundOf(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xff) prefix.pop_back();
  if (prefix.empty()) return std::nullopt;
  prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return prefix;
}

absl::StatusOr<std::string> GetRecord(PostgresConnection& connection, const PostgresStatements& sql, Family family,
                                      const std::string& key) {
  INGOT_ASSIGN_OR_RETURN(
      const PostgresRows rows,
      connection.Run("get", sql.get, {PostgresValue::Int16(static_cast<int16_t>(family)), PostgresValue::Bytes(key)}));
  if (rows.size() == 0) return absl::NotFoundError("");
  return std::string(rows.Value(0, 0));
}

// Reads one page of a scan and advances `from` to the key after it. Returns false if it was the last page.
using Page = std::vector<std::pair<std::string, std::string>>;
absl::StatusOr<bool> NextPage(PostgresConnection& connection, const PostgresStatements& sql, Family family,
                              const std::optional<std::string>& bound, std::string& from, Page& page) {
  INGOT_ASSIGN_OR_RETURN(
      const PostgresRows rows,
      connection.Run("scan", sql.scan,
                     {PostgresValue::Int16(static_cast<int16_t>(family)), PostgresValue::Bytes(from),
                      bound ? PostgresValue::Bytes(*bound) : PostgresValue::Null(), PostgresValue::Int64(kScanRows)}));
  page.clear();
  for (int i = 0; i < rows.size(); ++i) page.emplace_back(rows.Value(i, 0), rows.Value(i, 1));
  if (!page.empty()) from = page.back().first + '\0';
  return rows.size() == kScanRows;
}

}  // namespace

PostgresStatements::PostgresStatements(const std::string& schema)
    : table(PostgresConnection::Quoted(schema) + ".record"),
      get("select value from " + table + " where family = $1::smallint and key = $2::bytea"),
      scan("select key, value from " + table +
           " where family = $1::smallint and key >= $2::bytea and ($3::bytea is null or key < $3::bytea)"
           " order by family, key limit $4::bigint"),
      last("select key from " + table + " where family = $1::smallint order by family desc, key desc limit 1"),
      put("insert into " + table +
          " (family, key, value) select * from unnest($1::smallint[], $2::bytea[], $3::bytea[])"
          " on conflict (family, key) do update set value = excluded.value"),
      remove("delete from " + table + " where (family, key) in (select * from unnest($1::smallint[], $2::bytea[]))") {}

absl::Status PutRecords(PostgresConnection& connection, const PostgresStatements& sql,
                        const std::vector<int16_t>& families, const std::vector<std::string_view>& keys,
                        const std::vector<std::string_view>& values) {
  return connection
      .Run("put", sql.put,
           {PostgresValue::Int16Array(families), PostgresValue::BytesArray(keys), PostgresValue::BytesArray(values)})
      .status();
}

PostgresReader::PostgresReader(const PostgresStatements& sql,
                               absl::StatusOr<std::unique_ptr<PostgresConnection>> connection, Return give_back)
    : sql_(sql), connection_(std::move(connection)), give_back_(std::move(give_back)) {}

PostgresReader::~PostgresReader() {
  if (!connection_.ok() || (*connection_)->broken()) return;
  if ((*connection_)->Execute("rollback").ok()) give_back_(*std::move(connection_));
}

absl::StatusOr<std::string> PostgresReader::Get(Family family, const std::string& key) const {
  INGOT_RETURN_IF_ERROR(connection_.status());
  return GetRecord(**connection_, sql_, family, key);
}

absl::Status PostgresReader::Scan(Family family, const std::string& prefix, const std::string& from,
                                  const Database::Visit& visit) const {
  INGOT_RETURN_IF_ERROR(connection_.status());
  const std::optional<std::string> bound = BoundOf(prefix);
  std::string next = from;
  for (bool more = true; more;) {
    Page page;
    INGOT_ASSIGN_OR_RETURN(more, NextPage(**connection_, sql_, family, bound, next, page));
    for (const auto& [key, value] : page) {
      if (!visit(key, value)) return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> PostgresReader::LastKey(Family family) const {
  INGOT_RETURN_IF_ERROR(connection_.status());
  INGOT_ASSIGN_OR_RETURN(const PostgresRows rows,
                         (*connection_)->Run("last", sql_.last, {PostgresValue::Int16(static_cast<int16_t>(family))}));
  if (rows.size() == 0) return absl::NotFoundError("");
  return std::string(rows.Value(0, 0));
}

absl::Status PostgresReader::Damaged(const std::string& how) const {
  return absl::DataLossError(
      absl::StrCat("the pool in ", sql_.table, " is damaged (", how,
                   "): restore the database from its backup. To continue from the run's last checkpoint with an empty "
                   "pool: set another datapool.postgres.name, then start the run again with --resume"));
}

int64_t PostgresReader::BytesOnDisk() const {
  if (!connection_.ok()) return 0;
  const auto rows = (*connection_)->Execute("select pg_total_relation_size('" + sql_.table + "')");
  int64_t bytes = 0;
  return rows.ok() && rows->size() == 1 && absl::SimpleAtoi(std::string(rows->Value(0, 0)), &bytes) ? bytes : 0;
}

std::shared_ptr<const ReadSource> PostgresReader::source() const {
  if (!connection_.ok()) return nullptr;
  return (*connection_)->lead();
}

PostgresBatch::PostgresBatch(const PostgresStatements& sql, PostgresConnection* connection, absl::Status ready)
    : sql_(sql), connection_(connection), ready_(std::move(ready)) {}

PostgresBatch::~PostgresBatch() {
  if (ready_.ok() && !connection_->broken() && !done_) (void)connection_->Execute("rollback");
}

absl::StatusOr<std::string> PostgresBatch::Get(Family family, const std::string& key) {
  INGOT_RETURN_IF_ERROR(ready_);
  if (const auto changed = changes_.find({family, key}); changed != changes_.end()) {
    if (!changed->second) return absl::NotFoundError("");
    return *changed->second;
  }
  return GetRecord(*connection_, sql_, family, key);
}

absl::Status PostgresBatch::Scan(Family family, const std::string& prefix, const Database::Visit& visit) {
  INGOT_RETURN_IF_ERROR(ready_);
  const std::optional<std::string> bound = BoundOf(prefix);
  std::string next = prefix;
  auto changed = changes_.lower_bound({family, prefix});
  // Visits the changed records before `key`, or all if it is null. Returns false if the visitor stopped.
  const auto visit_changed = [&](const std::string* key) {
    for (; changed != changes_.end() && changed->first.first == family && changed->first.second.starts_with(prefix) &&
           (key == nullptr || changed->first.second < *key);
         ++changed) {
      if (changed->second && !visit(changed->first.second, *changed->second)) return false;
    }
    return true;
  };
  for (bool more = true; more;) {
    Page page;
    INGOT_ASSIGN_OR_RETURN(more, NextPage(*connection_, sql_, family, bound, next, page));
    for (const auto& [key, value] : page) {
      if (!visit_changed(&key)) return absl::OkStatus();
      // The changed record is visited next, unless it was deleted.
      if (changed != changes_.end() && changed->first == Key(family, key)) continue;
      if (!visit(key, value)) return absl::OkStatus();
    }
  }
  visit_changed(nullptr);
  return absl::OkStatus();
}

absl::Status PostgresBatch::RollbackToSavePoint() {
  for (; undo_.size() > save_points_.back(); undo_.pop_back()) {
    auto& [key, before] = undo_.back();
    if (before) {
      changes_[key] = *std::move(before);
    } else {
      changes_.erase(key);
    }
  }
  save_points_.pop_back();
  return absl::OkStatus();
}

absl::Status PostgresBatch::Commit() {
  INGOT_RETURN_IF_ERROR(ready_);
  done_ = true;
  std::vector<int16_t> put_families, deleted_families;
  std::vector<std::string_view> put_keys, put_values, deleted_keys;
  for (const auto& [key, value] : changes_) {
    (value ? put_families : deleted_families).push_back(static_cast<int16_t>(key.first));
    (value ? put_keys : deleted_keys).push_back(key.second);
    if (value) put_values.push_back(*value);
  }
  if (!put_keys.empty()) {
    INGOT_RETURN_IF_ERROR(PutRecords(*connection_, sql_, put_families, put_keys, put_values));
  }
  if (!deleted_keys.empty()) {
    INGOT_RETURN_IF_ERROR(
        connection_
            ->Run("delete", sql_.remove,
                  {PostgresValue::Int16Array(deleted_families), PostgresValue::BytesArray(deleted_keys)})
            .status());
  }
  return connection_->Commit();
}

void PostgresBatch::Change(const Key& key, Value value) {
  bytes_ += key.second.size() + (value ? value->size() : 0);
  const auto found = changes_.find(key);
  undo_.emplace_back(key, found == changes_.end() ? std::nullopt : std::optional<Value>(std::move(found->second)));
  changes_[key] = std::move(value);
}

}  // namespace ingot::datapool
