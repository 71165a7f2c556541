#include "datapool/postgres/postgres_connection.h"

#include <poll.h>
#include <postgresql/libpq-fe.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "base/log.h"
#include "base/waits.h"
#include "datapool/keys.h"

namespace ingot::datapool {
namespace {

constexpr uint32_t kInt16Oid = 21, kByteaOid = 17;  // pg_type.dat

// Returns the header of a 1-D array without NULLs (array_recv): dimensions, flags, type, length, lower bound.
std::string ArrayHeader(uint32_t oid, size_t length) {
  return BigEndian(length == 0 ? 0 : 1, 4) + BigEndian(0, 4) + BigEndian(oid, 4) +
         (length == 0 ? "" : BigEndian(length, 4) + BigEndian(1, 4));
}

absl::StatusCode CodeOf(std::string_view state) {
  if (state == "53100") return absl::StatusCode::kResourceExhausted;             // disk_full
  if (state == "XX001" || state == "XX002") return absl::StatusCode::kDataLoss;  // data, index corrupted
  for (const std::string_view wrong : {"3D", "3F", "42", "28", "0A"}) {
    if (state.substr(0, 2) == wrong) return absl::StatusCode::kFailedPrecondition;
  }
  return absl::StatusCode::kUnavailable;
}

std::string OneLine(const char* text) { return absl::StrReplaceAll(absl::StripAsciiWhitespace(text), {{"\n", "; "}}); }

constexpr std::chrono::milliseconds kLook(100);  // interval between checks that the server leads
constexpr std::chrono::seconds kSlow(1);         // a statement that waits this long triggers a check of other servers

}  // namespace

PostgresRows& PostgresRows::operator=(PostgresRows&& other) noexcept {
  std::swap(result_, other.result_);
  return *this;
}

PostgresRows::~PostgresRows() { PQclear(result_); }

int PostgresRows::size() const { return PQntuples(result_); }

std::string_view PostgresRows::Value(int row, int column) const {
  return {PQgetvalue(result_, row, column), static_cast<size_t>(PQgetlength(result_, row, column))};
}

PostgresValue PostgresValue::Int16(int16_t value) {
  PostgresValue made;
  made.owned_ = BigEndian(static_cast<uint16_t>(value), 2);
  return made;
}

PostgresValue PostgresValue::Int64(int64_t value) {
  PostgresValue made;
  made.owned_ = BigEndian(static_cast<uint64_t>(value), 8);
  return made;
}

PostgresValue PostgresValue::Bytes(std::string_view bytes) {
  PostgresValue made;
  made.view_ = bytes.data() == nullptr ? std::string_view("") : bytes;
  return made;
}

PostgresValue PostgresValue::Null() {
  PostgresValue made;
  made.null_ = true;
  return made;
}

PostgresValue PostgresValue::Int16Array(const std::vector<int16_t>& values) {
  PostgresValue made;
  made.owned_ = ArrayHeader(kInt16Oid, values.size());
  for (const int16_t value : values) made.owned_ += BigEndian(2, 4) + BigEndian(static_cast<uint16_t>(value), 2);
  return made;
}

PostgresValue PostgresValue::BytesArray(const std::vector<std::string_view>& values) {
  PostgresValue made;
  made.owned_ = ArrayHeader(kByteaOid, values.size());
  for (const std::string_view value : values) {
    made.owned_ += BigEndian(value.size(), 4);
    made.owned_ += value;
  }
  return made;
}

absl::Status PostgresError(const pg_result* result, const std::string& text, const std::string& host) {
  const char* const state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  return {CodeOf(state == nullptr ? "" : state), absl::StrCat("PostgreSQL at ", host, ": ", text)};
}

PostgresConnection::PostgresConnection(pg_conn* connection, std::string host, std::chrono::milliseconds answer_timeout)
    : connection_(connection), host_(std::move(host)), answer_timeout_(answer_timeout) {
  const auto on_notice = [](void* self, const PGresult* notice) {
    auto* const connected = static_cast<PostgresConnection*>(self);
    connected->warned_ = true;
    INGOT_LOG(warn, "PostgreSQL at {}: {}", connected->host_, OneLine(PQresultErrorMessage(notice)));
  };
  PQsetNoticeReceiver(connection_, on_notice, this);
}

PostgresConnection::~PostgresConnection() { PQfinish(connection_); }

absl::Status PostgresConnection::ErrorOf(const pg_result* result) {
  broken_ = true;
  return PostgresError(result, OneLine(result == nullptr ? PQerrorMessage(connection_) : PQresultErrorMessage(result)),
                       host_);
}

absl::Status PostgresConnection::CheckLead() {
  if (lead_ == nullptr || !lead_->over()) return absl::OkStatus();
  broken_ = true;
  return absl::UnavailableError(absl::StrCat("PostgreSQL at ", lead_->name(), " is no longer used: ", lead_->why()));
}

absl::Status PostgresConnection::AwaitResult(std::chrono::steady_clock::time_point end) {
  const auto slow = std::chrono::steady_clock::now() + kSlow;
  while (true) {
    const int unsent = PQflush(connection_);
    if (unsent < 0) return ErrorOf(nullptr);
    if (unsent == 0 && PQisBusy(connection_) == 0) return absl::OkStatus();
    INGOT_RETURN_IF_ERROR(CheckLead());
    const auto now = std::chrono::steady_clock::now();
    if (lead_ != nullptr && now >= slow) lead_->slow = true;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - now);
    if (left.count() <= 0) {
      broken_ = true;
      const std::string error =
          absl::StrCat("PostgreSQL at ", host_, " did not respond within ", answer_timeout_.count() / 1000.0,
                       " s: the server hangs, or a commit is waiting for a lost standby");
      // Other callers are waiting for the same server. This prevents them from timing out one after another.
      if (lead_ != nullptr) {
        lead_->hung = true;
        lead_->End(error);
      }
      return absl::UnavailableError(error);
    }
    pollfd socket = {PQsocket(connection_), static_cast<short>(unsent > 0 ? POLLIN | POLLOUT : POLLIN), 0};
    if (::poll(&socket, 1, static_cast<int>(std::min(left, kLook).count())) < 0 && errno != EINTR) {
      return ErrorOf(nullptr);
    }
    if (PQconsumeInput(connection_) == 0) return ErrorOf(nullptr);
  }
}

absl::StatusOr<PostgresRows> PostgresConnection::Answer(int sent) {
  if (sent == 0) return ErrorOf(nullptr);
  const base::Wait wait(absl::StrCat("PostgreSQL at ", host_, ", or a standby that it waits for"));
  const auto end = std::chrono::steady_clock::now() + answer_timeout_;
  PostgresRows last(nullptr);
  absl::Status error;
  while (true) {
    INGOT_RETURN_IF_ERROR(AwaitResult(end));
    pg_result* const result = PQgetResult(connection_);
    if (result == nullptr) break;
    PostgresRows rows(result);
    const ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) error.Update(ErrorOf(result));
    last = std::move(rows);
  }
  if (!error.ok()) return error;
  return last;
}

absl::StatusOr<PostgresRows> PostgresConnection::Execute(const std::string& sql) {
  INGOT_RETURN_IF_ERROR(CheckLead());
  return Answer(PQsendQuery(connection_, sql.c_str()));
}

absl::StatusOr<PostgresRows> PostgresConnection::Run(const char* name, const std::string& sql,
                                                     const std::vector<PostgresValue>& values) {
  INGOT_RETURN_IF_ERROR(CheckLead());
  if (std::find(prepared_.begin(), prepared_.end(), name) == prepared_.end()) {
    INGOT_RETURN_IF_ERROR(Answer(PQsendPrepare(connection_, name, sql.c_str(), 0, nullptr)).status());
    prepared_.emplace_back(name);
  }
  std::vector<const char*> data;
  std::vector<int> sizes;
  for (const PostgresValue& value : values) {
    data.push_back(value.data());
    sizes.push_back(value.size());
  }
  const std::vector<int> binary(values.size(), 1);
  return Answer(PQsendQueryPrepared(connection_, name, static_cast<int>(values.size()), data.data(), sizes.data(),
                                    binary.data(), 1));
}

absl::Status PostgresConnection::Commit() {
  warned_ = false;
  INGOT_RETURN_IF_ERROR(Execute("commit").status());
  INGOT_RETURN_IF_ERROR(CheckLead());
  // A commit warns only if it did not wait for its standby (SyncRepWaitForLSN). It is then on this server only.
  if (warned_) {
    broken_ = true;
    return absl::UnavailableError(
        absl::StrCat("PostgreSQL at ", host_, ": a standby did not acknowledge a commit, which may be lost"));
  }
  return absl::OkStatus();
}

std::string PostgresConnection::Quoted(const std::string& identifier) {
  return "\"" + absl::StrReplaceAll(identifier, {{"\"", "\"\""}}) + "\"";
}

}  // namespace ingot::datapool
