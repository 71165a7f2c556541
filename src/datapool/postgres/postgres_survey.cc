#include "datapool/postgres/postgres_survey.h"

#include <netdb.h>
#include <poll.h>
#include <postgresql/libpq-fe.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/waits.h"

namespace ingot::datapool {
namespace {

using Time = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kSlice(100);  // `stop` is checked after each slice

// A standby has the timeline that it follows. The timeline in a primary's control file may be outdated.
constexpr char kIdentify[] =
    "select pg_is_in_recovery(), (select system_identifier from pg_control_system()), "
    "case when pg_is_in_recovery() then (select greatest(c.timeline_id, r.min_recovery_end_timeline) "
    "from pg_control_checkpoint() c, pg_control_recovery() r) "
    "else ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int end, "
    "extract(epoch from pg_postmaster_start_time())";

std::string OneLine(const char* text) {
  return absl::StrReplaceAll(absl::StripAsciiWhitespace(text == nullptr ? "" : text), {{"\n", "; "}});
}

// Returns FAILED_PRECONDITION if the server rejects this user or database. libpq has no code for it.
absl::Status ConnectError(const std::string& text) {
  for (const char* sign :
       {"authentication failed", "does not exist", "no pg_hba.conf", "no password", "permission denied"}) {
    if (text.find(sign) != std::string::npos) return absl::FailedPreconditionError(text);
  }
  return absl::UnavailableError(text);
}

// A later setting with the same name overrides an earlier one.
class Settings {
 public:
  // `url` must outlive this object.
  explicit Settings(const std::string& url) {
    for (const auto& [name, value] : {std::pair("connect_timeout", "2"), std::pair("tcp_user_timeout", "5000"),
                                      std::pair("application_name", "ingot"), std::pair("dbname", url.c_str()),
                                      std::pair("client_encoding", "UTF8"), std::pair("target_session_attrs", "any")}) {
      Set(name, value);
    }
  }
  void Set(const char* name, const char* value) {
    names_.push_back(name);
    values_.push_back(value);
  }
  // Returns a connection in progress. Null = out of memory.
  pg_conn* Start() {
    Set(nullptr, nullptr);
    return PQconnectStartParams(names_.data(), values_.data(), 1);
  }

 private:
  std::vector<const char*> names_, values_;
};

absl::Status CheckUrl(const std::string& url) {
  char* error = nullptr;
  PQconninfoOption* const options = PQconninfoParse(url.c_str(), &error);
  const absl::Status checked = options != nullptr ? absl::OkStatus() : absl::InvalidArgumentError(OneLine(error));
  PQconninfoFree(options);
  PQfreemem(error);
  return checked;
}

// Returns the hosts of a list, each with its address and port. libpq uses its default for an empty value.
absl::StatusOr<std::vector<PostgresHost>> HostsOf(std::map<std::string, std::string>& values) {
  const std::vector<std::string> hosts = absl::StrSplit(values["host"], ',');
  const std::vector<std::string> addresses = absl::StrSplit(values["hostaddr"], ',');
  const std::vector<std::string> ports = absl::StrSplit(values["port"], ',');
  const size_t count = std::max(hosts.size(), addresses.size());
  const auto fits = [&](const std::vector<std::string>& list, bool one) {
    return list.size() == count || (list.size() == 1 && (one || list[0].empty()));
  };
  if (!fits(hosts, false) || !fits(addresses, false) || !fits(ports, true)) {
    return absl::InvalidArgumentError(absl::StrCat("the url has ", hosts.size(), " hosts, ", addresses.size(),
                                                   " addresses and ", ports.size(),
                                                   " ports: give one port, or one for each host"));
  }
  const auto at = [](const std::vector<std::string>& list, size_t i) { return list[list.size() == 1 ? 0 : i]; };
  std::vector<PostgresHost> made;
  for (size_t i = 0; i < count; ++i) made.push_back({at(hosts, i), at(addresses, i), at(ports, i)});
  return made;
}

// A name with several addresses, such as that of a headless service, counts as one server per address.
void AddAddresses(const PostgresHost& host, const PostgresResolver& resolve, std::vector<PostgresFound>& found) {
  if (host.host.empty() || host.host[0] == '/' || host.host[0] == '@' || !host.address.empty()) {
    found.emplace_back().host = host;
    return;
  }
  const absl::StatusOr<std::vector<std::string>> addresses = resolve(host.host);
  if (!addresses.ok() || addresses->empty()) {
    PostgresFound& one = found.emplace_back();
    one.host = host;
    const absl::Status none = absl::UnavailableError("the name does not resolve to an address");
    one.status = base::Annotate(addresses.ok() ? none : addresses.status(), host.Name());
    return;
  }
  for (const std::string& address : *addresses) found.emplace_back().host = {host.host, address, host.port};
}

// A query to one server. Not thread safe.
class Asking {
 public:
  Asking(const PostgresUrl& url, PostgresFound& found, std::chrono::milliseconds answer_timeout)
      : found_(found), answer_timeout_(answer_timeout) {
    Settings settings(url.text);
    if (!found.host.host.empty()) settings.Set("host", found.host.host.c_str());
    settings.Set("hostaddr", found.host.address.c_str());
    if (!found.host.port.empty()) settings.Set("port", found.host.port.c_str());
    connection_ = settings.Start();
    if (connection_ == nullptr) {
      Fail(absl::ResourceExhaustedError("libpq cannot allocate memory for a connection"));
    } else if (PQstatus(connection_) == CONNECTION_BAD) {
      Fail(ConnectError(OneLine(PQerrorMessage(connection_))));
    }
  }
  ~Asking() { PQfinish(connection_); }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

  bool done() const { return done_; }
  const PostgresFound& found() const { return found_; }
  pollfd Awaited() const { return {PQsocket(connection_), events_, 0}; }

  // Continues once the socket is ready.
  void Step() {
    if (!asked_) {
      const PostgresPollingStatusType state = PQconnectPoll(connection_);
      events_ = static_cast<short>(state == PGRES_POLLING_READING ? POLLIN : POLLOUT);
      if (state == PGRES_POLLING_FAILED) return Fail(ConnectError(OneLine(PQerrorMessage(connection_))));
      if (state != PGRES_POLLING_OK) return;
      Ask();
    } else if (PQconsumeInput(connection_) == 0) {
      return Fail(ConnectError(OneLine(PQerrorMessage(connection_))));
    }
    const int unsent = PQflush(connection_);
    if (unsent < 0) return Fail(ConnectError(OneLine(PQerrorMessage(connection_))));
    events_ = static_cast<short>(unsent > 0 ? POLLIN | POLLOUT : POLLIN);
    while (!done_ && PQisBusy(connection_) == 0) TakeResult();
  }

  void Leave(bool hung, std::chrono::milliseconds after) {
    found_.hung = hung;
    Fail(absl::UnavailableError(
        absl::StrCat(found_.host.Name(), " did not respond within ", static_cast<double>(after.count()) / 1000, " s")));
  }

 private:
  void Ask() {
    PQsetnonblocking(connection_, 1);
    asked_ = true;
    // A paused client must not keep its locks.
    const std::string sql =
        absl::StrCat("set client_min_messages = warning; set lock_timeout = ", answer_timeout_.count() * 3 / 4,
                     "; set idle_in_transaction_session_timeout = '10s'; ", kIdentify);
    if (PQsendQuery(connection_, sql.c_str()) == 0) Fail(absl::UnavailableError(OneLine(PQerrorMessage(connection_))));
  }

  void TakeResult() {
    pg_result* const result = PQgetResult(connection_);
    if (result == nullptr) return Finish();
    const ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_TUPLES_OK && PQntuples(result) == 1 && PQnfields(result) == 4) {
      PostgresAnswer& answer = found_.answer;
      answer.host = found_.host.Name();
      answer.standby = PQgetvalue(result, 0, 0) != std::string("f");
      answer.identity.system = PQgetvalue(result, 0, 1);
      answer.identity.started = PQgetvalue(result, 0, 3);
      if (!absl::SimpleAtoi(PQgetvalue(result, 0, 2), &answer.identity.timeline)) answer.identity.timeline = 0;
    } else if (status != PGRES_COMMAND_OK) {
      Fail(PostgresError(result, OneLine(PQresultErrorMessage(result)), found_.host.Name()));
    }
    PQclear(result);
  }

  void Finish() {
    if (found_.answer.identity.timeline <= 0 || found_.answer.identity.system.empty()) {
      return Fail(absl::FailedPreconditionError(
          absl::StrCat(found_.host.Name(), " reports no system identifier and timeline: is it PostgreSQL?")));
    }
    done_ = true;
    found_.connection =
        std::make_unique<PostgresConnection>(std::exchange(connection_, nullptr), found_.host.Name(), answer_timeout_);
  }

  void Fail(absl::Status status) {
    done_ = true;
    found_.status = std::move(status);
  }

  PostgresFound& found_;
  const std::chrono::milliseconds answer_timeout_;
  pg_conn* connection_ = nullptr;
  short events_ = POLLOUT;
  bool asked_ = false, done_ = false;
};

// Returns whether the survey can end without the servers that have not answered.
bool Enough(const std::vector<std::unique_ptr<Asking>>& all, const PostgresSurvey& survey) {
  bool writes = !survey.await_writer;
  for (const auto& one : all) {
    if (!one->done() && (survey.not_awaited == nullptr || !survey.not_awaited(one->found().host.Name()))) return false;
    writes = writes || (one->done() && one->found().connection != nullptr && !one->found().answer.standby);
  }
  return writes;
}

// Advances the servers that are ready. Returns false if there are no servers left to wait for.
bool StepReady(const std::vector<std::unique_ptr<Asking>>& all, std::chrono::milliseconds wait) {
  std::vector<pollfd> sockets;
  std::vector<Asking*> waiting;
  for (const auto& one : all) {
    if (one->done()) continue;
    sockets.push_back(one->Awaited());
    waiting.push_back(one.get());
  }
  if (waiting.empty()) return false;
  if (::poll(sockets.data(), sockets.size(), static_cast<int>(wait.count())) <= 0) return true;
  for (size_t i = 0; i < sockets.size(); ++i) {
    if (sockets[i].revents != 0) waiting[i]->Step();
  }
  return true;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> SystemAddresses(const std::string& name) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* addresses = nullptr;
  if (const int error = ::getaddrinfo(name.c_str(), nullptr, &wanted, &addresses); error != 0) {
    return absl::UnavailableError(::gai_strerror(error));
  }
  std::vector<std::string> texts;
  for (const addrinfo* address = addresses; address != nullptr; address = address->ai_next) {
    char text[NI_MAXHOST];
    if (::getnameinfo(address->ai_addr, address->ai_addrlen, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0)
      continue;
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.emplace_back(text);
  }
  ::freeaddrinfo(addresses);
  return texts;
}

std::vector<PostgresFound> ResolvePostgres(const std::vector<PostgresHost>& hosts, const PostgresResolver& resolve) {
  std::vector<PostgresFound> found;
  for (const PostgresHost& host : hosts) AddAddresses(host, resolve, found);
  return found;
}

std::string PostgresHost::Name() const {
  const std::string place = host.empty()                         ? (address.empty() ? "the default socket" : address)
                            : address.empty() || address == host ? host
                                                                 : absl::StrCat(host, "(", address, ")");
  return port.empty() ? place : absl::StrCat(place, ":", port);
}

absl::StatusOr<PostgresUrl> PostgresUrl::Parse(const std::string& text) {
  INGOT_RETURN_IF_ERROR(CheckUrl(text));
  PostgresUrl url{text, {}, std::chrono::seconds(2)};
  // The environment and a service file may add settings. libpq reports the combined settings only for a connection.
  pg_conn* const connection = Settings(url.text).Start();
  std::map<std::string, std::string> values;
  PQconninfoOption* const options = PQconninfo(connection);
  for (const PQconninfoOption* option = options; option != nullptr && option->keyword != nullptr; ++option) {
    if (option->val != nullptr) values[option->keyword] = option->val;
  }
  PQconninfoFree(options);
  const std::string error = OneLine(PQerrorMessage(connection));
  PQfinish(connection);
  if (values.empty()) return absl::InvalidArgumentError(error);
  INGOT_ASSIGN_OR_RETURN(url.hosts, HostsOf(values));
  double seconds = 0;
  if (absl::SimpleAtod(values["connect_timeout"], &seconds) && seconds > 0) {
    url.connect_timeout = std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
  }
  return url;
}

std::vector<PostgresFound> SurveyPostgres(const PostgresUrl& url, const std::vector<PostgresHost>& hosts,
                                          const PostgresSurvey& survey) {
  const base::Wait wait("a connection to PostgreSQL");
  std::vector<PostgresFound> found = ResolvePostgres(hosts, survey.resolve);
  const Time::time_point begun = Time::now(), end = begun + url.connect_timeout;
  std::vector<std::unique_ptr<Asking>> all;
  for (PostgresFound& one : found) {
    if (one.status.ok()) all.push_back(std::make_unique<Asking>(url, one, survey.answer_timeout));
  }
  while (survey.stop == nullptr || !*survey.stop) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Time::now());
    if (left.count() <= 0 || Enough(all, survey) || !StepReady(all, std::min(left, kSlice))) break;
  }
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Time::now() - begun);
  for (const auto& one : all) {
    if (!one->done()) one->Leave(took >= url.connect_timeout, std::min(took, url.connect_timeout));
  }
  return found;
}

}  // namespace ingot::datapool
