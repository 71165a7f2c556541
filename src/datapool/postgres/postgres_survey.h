// Asks all servers in a connection string to identify themselves, in parallel. They share one deadline, so several hung
// servers cause no more delay than a single one.
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

// A server in a connection string. Empty fields = libpq defaults.
struct PostgresHost {
  std::string host, address, port;
  std::string Name() const;  // "db-a:5432", "db-a(10.0.0.7):5432", "/run/postgresql:5432"
};

struct PostgresUrl {
  std::string text;
  std::vector<PostgresHost> hosts;            // at least one
  std::chrono::milliseconds connect_timeout;  // for all hosts together

  // Returns INVALID_ARGUMENT if `text` is not a libpq connection string or names an unknown service.
  static absl::StatusOr<PostgresUrl> Parse(const std::string& text);
};

// Resolves a name to its numeric addresses, or returns UNAVAILABLE.
using PostgresResolver = std::function<absl::StatusOr<std::vector<std::string>>(const std::string& name)>;
absl::StatusOr<std::vector<std::string>> SystemAddresses(const std::string& name);

struct PostgresFound {
  PostgresHost host;
  absl::Status status;    // UNAVAILABLE, or FAILED_PRECONDITION if the server rejects the user or database
  bool hung = false;      // did not answer before the deadline
  PostgresAnswer answer;  // set if status is OK
  std::unique_ptr<PostgresConnection> connection;
};

struct PostgresSurvey {
  std::chrono::milliseconds answer_timeout;  // limit for statements on the connections that the survey opens
  // Returns true for hosts that the survey does not wait for once a writable server has answered, or at all if
  // !await_writer. Null = the survey waits for every host.
  std::function<bool(const std::string& name)> not_awaited;
  bool await_writer = true;
  PostgresResolver resolve = SystemAddresses;
  const std::atomic<bool>* stop = nullptr;  // true ends the survey
};

// Returns one entry per address of each host, with the host's name, or with the resolver's error.
std::vector<PostgresFound> ResolvePostgres(const std::vector<PostgresHost>& hosts, const PostgresResolver& resolve);

// Queries these hosts and returns their answers. Blocks for at most url.connect_timeout, plus the time for name
// resolution, which has its own limits.
std::vector<PostgresFound> SurveyPostgres(const PostgresUrl& url, const std::vector<PostgresHost>& hosts,
                                          const PostgresSurvey& survey);

}  // namespace ingot::datapool
