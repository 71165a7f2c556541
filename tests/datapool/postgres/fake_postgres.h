// A server that speaks as much of PostgreSQL's protocol (version 3) as tests of connecting need. It identifies itself,
// and answers other statements as the test says. It is silent on demand: at the start of a session, or after a
// statement that contains "hang". Thread safe.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "datapool/keys.h"
#include "datapool/make_pool.h"
#include "datapool/postgres/postgres_lead.h"

namespace ingot::datapool::testing {

class FakePostgres {
 public:
  using Rows = std::vector<std::vector<std::string>>;

  // `address`: of version 4, and `port`: 0 = any free one. Empty = a socket in a folder.
  explicit FakePostgres(const PostgresIdentity& identity, bool standby = false, const std::string& address = "",
                        int port = 0)
      : address_(address), port_(address.empty() ? 5432 : port), said_{"", standby, identity} {
    Start();
  }
  ~FakePostgres() { Stop(); }
  FakePostgres(const FakePostgres&) = delete;
  FakePostgres& operator=(const FakePostgres&) = delete;

  std::string host() const { return address_.empty() ? dir_.path() : address_; }
  int port() const { return port_; }
  std::string name() const { return host() + ":" + std::to_string(port_); }
  int started() const {  // sessions that clients requested
    base::MutexLock lock(mu_);
    return started_;
  }
  void Say(const PostgresIdentity& identity, bool standby) {
    base::MutexLock lock(mu_);
    said_ = {"", standby, identity};
  }
  void SetSilent(bool silent) {
    base::MutexLock lock(mu_);
    silent_ = silent;
  }
  // Its rows for statements other than its identification; before that it has none. All rows have the same length.
  void Answer(std::function<Rows(const std::string& sql)> answer) {
    base::MutexLock lock(mu_);
    answer_ = std::move(answer);
  }
  // Called in each session before its answer.
  void OnStart(std::function<void()> call) {
    base::MutexLock lock(mu_);
    on_start_ = std::move(call);
  }
  // Ends the server and all sessions: new connections are refused.
  void Stop() {
    ::shutdown(listener_, SHUT_RDWR);
    if (acceptor_.joinable()) acceptor_.join();
    {
      base::MutexLock lock(mu_);
      for (const int session : sockets_) ::shutdown(session, SHUT_RDWR);
    }
    threads_.clear();  // joins
    base::MutexLock lock(mu_);
    for (const int session : sockets_) ::close(session);
    sockets_.clear();
    if (listener_ >= 0) ::close(listener_);
    listener_ = -1;
    ::unlink(path().c_str());
  }
  void Start() {
    if (!(address_.empty() ? BindFile() : BindAddress()) || ::listen(listener_, 64) != 0) {
      ADD_FAILURE() << "no socket at " << name() << ": " << std::strerror(errno);
    }
    acceptor_ = std::jthread([this] { Accept(); });
  }

 private:
  std::string path() const { return dir_.path() + "/.s.PGSQL.5432"; }

  bool BindFile() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof(address.sun_path) - 1);
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  bool BindAddress() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port_));
    ::inet_pton(AF_INET, address_.c_str(), &address.sin_addr);
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return false;
    socklen_t size = sizeof(address);
    if (::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) return false;
    port_ = ntohs(address.sin_port);
    return true;
  }

  void Accept() {
    for (int session = 0; (session = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
      base::MutexLock lock(mu_);
      sockets_.push_back(session);
      threads_.emplace_back([this, session] { Serve(session); });
    }
  }

  static bool Read(int session, char* data, size_t size) {
    return size == 0 || ::recv(session, data, size, MSG_WAITALL) == static_cast<ssize_t>(size);
  }
  // The rest of a message after its length.
  static bool ReadMessage(int session, std::string& body) {
    char size[4];
    if (!Read(session, size, 4)) return false;
    body.resize(FromBigEndian({size, 4}) - 4);
    return Read(session, body.data(), body.size());
  }
  static void Send(int session, const std::string& messages) {
    (void)!::send(session, messages.data(), messages.size(), MSG_NOSIGNAL);
  }
  static std::string Message(char type, const std::string& body) { return type + BigEndian(body.size() + 4, 4) + body; }

  void Serve(int session) {
    std::string body;
    if (!ReadMessage(session, body)) return;
    std::function<void()> on_start;
    bool silent = false;
    {
      base::MutexLock lock(mu_);
      ++started_;
      on_start = on_start_;
      silent = silent_;
    }
    if (on_start) on_start();
    const std::string ready = Message('Z', "I");
    if (!silent) Send(session, Message('R', BigEndian(0, 4)) + ready);
    for (char type = 0; Read(session, &type, 1) && ReadMessage(session, body) && type != 'X';) {
      if (silent || body.find("hang") != std::string::npos) continue;
      Send(session, (body.find("pg_is_in_recovery") != std::string::npos ? Who() : Told(body)) + ready);
    }
  }

  // The results of three SETs, and one row.
  std::string Who() const {
    const PostgresAnswer said = [&] {
      base::MutexLock lock(mu_);
      return said_;
    }();
    const std::string set = Message('C', std::string("SET\0", 4));
    return set + set + set +
           Table({{said.standby ? "t" : "f", said.identity.system, std::to_string(said.identity.timeline),
                   said.identity.started}});
  }

  // The result that the test gives a statement.
  std::string Told(const std::string& body) const {
    std::function<Rows(const std::string&)> answer;
    {
      base::MutexLock lock(mu_);
      answer = answer_;
    }
    const Rows rows = answer ? answer(body) : Rows{};
    return rows.empty() ? Message('C', std::string("OK\0", 3)) : Table(rows);
  }

  // At least one row, as text.
  static std::string Table(const Rows& rows) {
    std::string columns = BigEndian(rows[0].size(), 2), messages;
    for (size_t i = 0; i < rows[0].size(); ++i) {
      columns += std::string("c\0", 2) + BigEndian(0, 4) + BigEndian(0, 2) + BigEndian(25, 4) + BigEndian(0xffff, 2) +
                 BigEndian(0xffffffff, 4) + BigEndian(0, 2);
    }
    messages = Message('T', columns);
    for (const std::vector<std::string>& values : rows) {
      std::string row = BigEndian(values.size(), 2);
      for (const std::string& value : values) row += BigEndian(value.size(), 4) + value;
      messages += Message('D', row);
    }
    return messages + Message('C', std::string("SELECT 1\0", 9));
  }

  const TempDir dir_;
  const std::string address_;
  int port_;
  int listener_ = -1;
  std::jthread acceptor_;
  mutable base::Mutex mu_;
  PostgresAnswer said_ ABSL_GUARDED_BY(mu_);
  bool silent_ ABSL_GUARDED_BY(mu_) = false;
  int started_ ABSL_GUARDED_BY(mu_) = 0;
  std::function<void()> on_start_ ABSL_GUARDED_BY(mu_);
  std::function<Rows(const std::string&)> answer_ ABSL_GUARDED_BY(mu_);
  std::vector<int> sockets_ ABSL_GUARDED_BY(mu_);
  std::vector<std::jthread> threads_;  // only the acceptor adds to it
};

}  // namespace ingot::datapool::testing
