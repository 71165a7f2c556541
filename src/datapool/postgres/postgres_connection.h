// A connection to a PostgreSQL server over libpq (https://www.postgresql.org/docs/15/libpq.html). Parameters and
// results are binary. Errors are mapped from SQLSTATE to absl::Status (PostgreSQL 15, appendix A):
//
//   RESOURCE_EXHAUSTED   the server's disk is full
//   DATA_LOSS            the server found damaged data
//   FAILED_PRECONDITION  the database is not set up as expected: the table or a permission is missing
//   UNAVAILABLE          anything that a retry may fix: no server, a failover, a lost connection. The statement may
//                        have been executed.
//
// A connection that returned an error is broken and can only be destroyed. A connection also breaks when its server no
// longer leads (PostgresLead); pending statements then end within a tenth of a second. Not thread safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "datapool/postgres/postgres_lead.h"

struct pg_conn;
struct pg_result;

namespace ingot::datapool {

// A result's rows. Values are valid while this object exists.
class PostgresRows {
 public:
  explicit PostgresRows(pg_result* result) : result_(result) {}
  PostgresRows(PostgresRows&& other) noexcept : result_(std::exchange(other.result_, nullptr)) {}
  PostgresRows& operator=(PostgresRows&& other) noexcept;
  ~PostgresRows();
  int size() const;
  // Returns a value's bytes, or its text form if the statement has no parameters. Returns an empty view for NULL.
  std::string_view Value(int row, int column) const;

 private:
  pg_result* result_;
};

// A parameter in PostgreSQL's binary format.
class PostgresValue {
 public:
  static PostgresValue Int16(int16_t value);
  static PostgresValue Int64(int64_t value);
  static PostgresValue Bytes(std::string_view bytes);  // bytea; `bytes` must outlive the value
  static PostgresValue Null();
  static PostgresValue Int16Array(const std::vector<int16_t>& values);
  static PostgresValue BytesArray(const std::vector<std::string_view>& values);

  const char* data() const { return null_ ? nullptr : (view_.data() != nullptr ? view_.data() : owned_.data()); }
  int size() const { return static_cast<int>(view_.data() != nullptr ? view_.size() : owned_.size()); }

 private:
  std::string owned_;
  std::string_view view_;
  bool null_ = false;
};

// Maps a result's SQLSTATE to an error. A null result maps to UNAVAILABLE. `text` is one line.
absl::Status PostgresError(const pg_result* result, const std::string& text, const std::string& host);

class PostgresConnection {
 public:
  // Takes ownership of `connection`, which must be open and nonblocking (datapool/postgres/postgres_survey.h). `host`
  // is the server's name in messages. `answer_timeout` limits the duration of a statement; > 0.
  PostgresConnection(pg_conn* connection, std::string host, std::chrono::milliseconds answer_timeout);
  ~PostgresConnection();
  PostgresConnection(const PostgresConnection&) = delete;
  PostgresConnection& operator=(const PostgresConnection&) = delete;

  // From now on, the connection works only while its server leads.
  void SetLead(std::shared_ptr<PostgresLead> lead) { lead_ = std::move(lead); }
  const std::shared_ptr<PostgresLead>& lead() const { return lead_; }
  const std::string& host() const { return host_; }

  // Executes one or more statements without parameters. Returns the last statement's rows, as text.
  absl::StatusOr<PostgresRows> Execute(const std::string& sql);
  // Executes one statement with parameters $1, $2, and so on. The statement is prepared on first use. REQUIRES: `sql`
  // is a literal.
  absl::StatusOr<PostgresRows> Run(const char* name, const std::string& sql, const std::vector<PostgresValue>& values);
  // Commits the transaction. OK = durable on this server and on the standbys in its synchronous_standby_names.
  // UNAVAILABLE = may or may not be durable. A commit that times out is not canceled, because canceling would make it
  // succeed without a standby. Also returns UNAVAILABLE if the server acknowledged the commit after it had stopped
  // leading.
  absl::Status Commit();
  bool broken() const { return broken_ || (lead_ != nullptr && lead_->over()); }
  // Quotes an identifier for use in a statement.
  static std::string Quoted(const std::string& identifier);

 private:
  absl::Status ErrorOf(const pg_result* result);
  // Returns UNAVAILABLE if the server no longer leads.
  absl::Status CheckLead();
  // Returns the last result for the sent statement, or the first error. `sent` is a PQsend function's return
  // value.
  absl::StatusOr<PostgresRows> Answer(int sent);
  // Returns UNAVAILABLE if the connection was lost, `end` has passed, or the server no longer leads.
  absl::Status AwaitResult(std::chrono::steady_clock::time_point end);

  pg_conn* const connection_;
  const std::string host_;
  const std::chrono::milliseconds answer_timeout_;
  std::shared_ptr<PostgresLead> lead_;  // null = not known
  std::vector<std::string> prepared_;   // names of prepared statements
  bool broken_ = false;
  bool warned_ = false;  // the server sent a warning
};

}  // namespace ingot::datapool
