// One connection to a PostgreSQL server, over libpq (https://www.postgresql.org/docs/15/libpq.html). Parameters and
// results are binary. Errors are absl::Status by SQLSTATE (PostgreSQL 15, appendix A):
//
//   RESOURCE_EXHAUSTED   the server's disk is full
//   DATA_LOSS            the server found damaged data
//   FAILED_PRECONDITION  the database is not what the caller expects: no such table, no right to use it
//   UNAVAILABLE          anything that a retry may fix: no server, a failover, a lost connection. The statement may
//                        have been executed
//
// A connection that returned an error is broken and can only be destroyed. A connection whose server no longer leads
// (PostgresLead) is broken too: a waiting statement then ends within a tenth of a second. Not thread safe.
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

// The rows of a result. Values are valid as long as the rows are.
class PostgresRows {
 public:
  explicit PostgresRows(pg_result* result) : result_(result) {}
  PostgresRows(PostgresRows&& other) noexcept : result_(std::exchange(other.result_, nullptr)) {}
  PostgresRows& operator=(PostgresRows&& other) noexcept;
  ~PostgresRows();
  int size() const;
  // The bytes of a value, or its text where the statement has no parameters. Empty for NULL.
  std::string_view Value(int row, int column) const;

 private:
  pg_result* result_;
};

// A parameter in PostgreSQL's binary format.
class PostgresValue {
 public:
  static PostgresValue Int16(int16_t value);
  static PostgresValue Int64(int64_t value);
  static PostgresValue Bytes(std::string_view bytes);  // bytea; `bytes` outlive the value
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

// The error of a result, by its SQLSTATE; null = UNAVAILABLE. `text` is one line.
absl::Status PostgresError(const pg_result* result, const std::string& text, const std::string& host);

class PostgresConnection {
 public:
  // Owns `connection`, which is open and not blocking (datapool/postgres/postgres_survey.h). `host`: its server's, for
  // messages. `answer_timeout`: how long a statement may take; > 0.
  PostgresConnection(pg_conn* connection, std::string host, std::chrono::milliseconds answer_timeout);
  ~PostgresConnection();
  PostgresConnection(const PostgresConnection&) = delete;
  PostgresConnection& operator=(const PostgresConnection&) = delete;

  // From now on the connection works only as long as its server leads.
  void SetLead(std::shared_ptr<PostgresLead> lead) { lead_ = std::move(lead); }
  const std::shared_ptr<PostgresLead>& lead() const { return lead_; }
  const std::string& host() const { return host_; }

  // Statements without parameters, one or several. Returns the rows of the last one, as text.
  absl::StatusOr<PostgresRows> Execute(const std::string& sql);
  // One statement with parameters $1, $2, ...; it is prepared at its first use. REQUIRES: `sql` is a literal.
  absl::StatusOr<PostgresRows> Run(const char* name, const std::string& sql, const std::vector<PostgresValue>& values);
  // Commits the transaction. OK: durable on this server and on the standbys in its synchronous_standby_names.
  // UNAVAILABLE: the commit may or may not be durable. A commit without an answer in time is not cancelled: cancelling
  // would make it succeed without a standby. A commit that the server acknowledged after it stopped leading is
  // UNAVAILABLE.
  absl::Status Commit();
  bool broken() const { return broken_ || (lead_ != nullptr && lead_->over()); }
  // The name that a quoted identifier has in a statement.
  static std::string Quoted(const std::string& identifier);

 private:
  absl::Status ErrorOf(const pg_result* result);
  // UNAVAILABLE: the server no longer leads.
  absl::Status CheckLead();
  // The answer to the sent statement: the last result, or the first error. `sent` is the result of a PQsend function.
  absl::StatusOr<PostgresRows> Answer(int sent);
  // UNAVAILABLE: the connection was lost, `end` has passed, or the server no longer leads.
  absl::Status AwaitResult(std::chrono::steady_clock::time_point end);

  pg_conn* const connection_;
  const std::string host_;
  const std::chrono::milliseconds answer_timeout_;
  std::shared_ptr<PostgresLead> lead_;  // null = not known
  std::vector<std::string> prepared_;   // names of statements
  bool broken_ = false;
  bool warned_ = false;  // the server sent a warning
};

}  // namespace ingot::datapool
