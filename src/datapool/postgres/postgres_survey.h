// Asks all servers of a connection string at once to identify themselves. All share one deadline, so that hung servers
// cost it once.
//
//   url ──▶ hosts ──▶ addresses ──▶ connect, ask ──▶ answer and connection, or an error
//                         └────────── all at the same time ──────────┘
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "datapool/postgres/postgres_connection.h"
#include "datapool/postgres/postgres_lead.h"

namespace ingot::datapool {

// A server as a connection string names it. Empty fields are libpq's defaults.
struct PostgresHost {
  std::string host, address, port;
  std::string Name() const;  // "db-a:5432", "db-a(10.0.0.7):5432", "/run/postgresql:5432"
};

struct PostgresUrl {
  std::string text;
  std::vector<PostgresHost> hosts;            // at least one
  std::chrono::milliseconds connect_timeout;  // of all together

  // INVALID_ARGUMENT: `text` is not a connection string of libpq, or names an unknown service.
  static absl::StatusOr<PostgresUrl> Parse(const std::string& text);
};

// The numeric addresses of a name, or UNAVAILABLE.
using PostgresResolver = std::function<absl::StatusOr<std::vector<std::string>>(const std::string& name)>;
absl::StatusOr<std::vector<std::string>> SystemAddresses(const std::string& name);

struct PostgresFound {
  PostgresHost host;
  absl::Status status;    // UNAVAILABLE, or FAILED_PRECONDITION: the server rejects user or database
  bool hung = false;      // it did not answer within the whole time
  PostgresAnswer answer;  // set if status is OK
  std::unique_ptr<PostgresConnection> connection;
};

struct PostgresSurvey {
  std::chrono::milliseconds answer_timeout;  // of the connections that it makes
  // Hosts that need not be awaited once a server that writes has answered, or at all; null = none.
  std::function<bool(const std::string& name)> not_awaited;
  bool await_writer = true;
  PostgresResolver resolve = SystemAddresses;
  const std::atomic<bool>* stop = nullptr;  // true ends the survey
};

// One entry for each address of each of `hosts`, with the host's name, or an error of the resolver.
std::vector<PostgresFound> ResolvePostgres(const std::vector<PostgresHost>& hosts, const PostgresResolver& resolve);

// The answers of these entries. Blocks for url.connect_timeout at most, and for the system's resolver of
// names, which has its own limits.
std::vector<PostgresFound> SurveyPostgres(const PostgresUrl& url, const std::vector<PostgresHost>& hosts,
                                          const PostgresSurvey& survey);

}  // namespace ingot::datapool
