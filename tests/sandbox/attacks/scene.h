// The scene of an attack: a substrate with a sibling in another sandbox, tasks, a run, and services of the machine.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "sandbox/marked_processes.h"
#include "sandbox/test_sandbox.h"
#include "sandbox/trees/remove_tree.h"
#include "test_paths.h"

namespace ingot::sandbox {

// A unix socket at a path that everybody may write, bound and, of streams, listening.
inline Fd SocketAt(const std::string& path, int type) {
  Fd made(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  EXPECT_LT(path.size(), sizeof(address.sun_path));
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  EXPECT_EQ(bind(made.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(listen(made.get(), 16) == 0, type == SOCK_STREAM);
  EXPECT_EQ(chmod(path.c_str(), 0777), 0);
  return made;
}

// A FIFO that everybody may write, with a reader.
inline Fd PipeAt(const std::string& path) {
  EXPECT_EQ(mkfifo(path.c_str(), 0777), 0);
  EXPECT_EQ(chmod(path.c_str(), 0777), 0);
  return Fd(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
}

// A service of a recipe: it has a key, and listens inside of the sandbox.
inline constexpr char kService[] = R"(
import ctypes, os, socket
libc = ctypes.CDLL(None)
libc.shmget(int(os.environ["IPC_KEY"]), 4096, 0o1600)
open("/dev/shm/service", "w").close()
server = socket.create_server(("127.0.0.1", 8123))
open("service-ready", "w").close()
while True:
    server.accept()[0].sendall(b"hello")
)";

// A service of the machine: on a TCP port, or an abstract unix socket.
class Listener {
 public:
  explicit Listener(int family) : fd_(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_storage address{};
    address.ss_family = static_cast<sa_family_t>(family);
    socklen_t size = sizeof(sockaddr_in);
    if (family == AF_UNIX) {
      name_ = "ingot-test-" + base::RandomHex(8);
      auto* const local = reinterpret_cast<sockaddr_un*>(&address);
      std::copy(name_.begin(), name_.end(), local->sun_path + 1);
      size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name_.size());
    } else {
      reinterpret_cast<sockaddr_in*>(&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_.get(), 16), 0);
    size = sizeof(address);
    getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
  }
  int port() const { return port_; }
  const std::string& name() const { return name_; }

 private:
  const Fd fd_;
  int port_ = 0;
  std::string name_;
};

// The victims: a substrate with a sibling in another sandbox, tasks and a run.
class Scene {
 public:
  Scene(const std::string& isolation, uint32_t rejected) {
    prctl(PR_SET_DUMPABLE, 0);  // as every process of Ingot that holds keys
    runs_ = folder_.path() + "/runs";
    std::filesystem::create_directories(runs_ + "/run");
    std::ofstream(runs_ + "/run/metrics.jsonl") << "record";
    tasks_ = folder_.path() + "/tasks.jsonl";
    std::ofstream(tasks_) << "secret answer";
    SubstrateOptions options;
    options.work_root = folder_.path() + "/work";
    options.hidden = {runs_, tasks_};
    shown_ = folder_.path() + "/shown";
    std::filesystem::create_directories(shown_ + "/below");
    options.visible = {shown_};
    channels_.push_back(SocketAt(shown_ + "/stream", SOCK_STREAM));
    channels_.push_back(SocketAt(shown_ + "/datagram", SOCK_DGRAM));
    channels_.push_back(SocketAt(shown_ + "/below/stream", SOCK_STREAM));
    channels_.push_back(PipeAt(shown_ + "/pipe"));
    options.isolation = isolation;
    options.totals = {.memory_bytes = 256 << 20, .processes = 64, .cpus = 0.5};
    options.disk = {.bytes = 64 << 20, .files = 5000};
    outside_ = folder_.path() + "/outside";
    std::filesystem::create_directories(outside_);
    std::filesystem::permissions(outside_, std::filesystem::perms::all);
    std::ofstream(outside_ + "/file") << "outside";
    channels_.push_back(SocketAt(outside_ + "/stream", SOCK_STREAM));
    auto made = LocalSubstrate::Make(options, rejected);
    if (!made.ok()) std::printf("%s\n", made.status().ToString().c_str());
    substrate_ = made.ok() ? *std::move(made) : nullptr;
  }
  ~Scene() {
    cancel_.Cancel();
    if (neighbour_.joinable()) neighbour_.join();
  }

  LocalSubstrate* substrate() { return substrate_.get(); }
  const ProbeResult& probe_result() const { return substrate_->probe_result(); }

  // Starts the sibling. False: it does not run.
  bool Begin() {
    auto sandbox = substrate_->Prepare();
    if (!sandbox.ok()) return false;
    sibling_ = *std::move(sandbox);
    if (!sibling_->WriteFile("file", "sibling's file").ok()) return false;
    neighbour_ = std::thread([this] {
      Command command{.argv = {"sleep", sibling_mark_.sleep()},
                      .env = {{"PATH", "/usr/bin:/bin"}, {"KEY", "sibling's key"}},
                      .working_dir = sibling_->work(),
                      .stdin_text = ""};
      Limits limits;
      limits.wall_time = std::chrono::seconds(600);
      (void)sibling_->Run(command, limits, &cancel_);
    });
    return sibling_mark_.Await(1);
  }

  absl::StatusOr<Outcome> Attack(const std::string& name) {
    INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<Sandbox> sandbox, substrate_->Prepare());
    std::ostringstream script;
    script << std::ifstream(INGOT_SOURCE_DIR "/tests/sandbox/attacks/attack.py").rdbuf();
    INGOT_RETURN_IF_ERROR(sandbox->WriteFile("attack.py", script.str()));
    Command command{.argv = {"python3", "attack.py", name},
                    .env = {{"PATH", "/usr/bin:/bin"},
                            {"OWNER", std::to_string(getpid())},
                            {"SIBLING", std::to_string(sibling_mark_.Any())},
                            {"SIBLING_WORK", sibling_->work()},
                            {"TASKS", tasks_},
                            {"RUNS", runs_},
                            {"SIBLING_MARK", sibling_mark_.sleep()},
                            {"OUTSIDE", outside_},
                            {"SHOWN", shown_},
                            {"IPC_KEY", std::to_string(ipc_key_)},
                            {"SERVICE", std::to_string(service_.port())},
                            {"ABSTRACT", abstract_.name()},
                            {"NONCE", nonce_},
                            {"SLEEP", left_.sleep()}},
                    .working_dir = sandbox->work(),
                    .stdin_text = ""};
    Limits limits;
    limits.wall_time = std::chrono::seconds(180);  // on a loaded machine
    std::thread watcher;
    if (name == "inotify" || name == "listen") watcher = std::thread([&] { LookWhileHeld(*sandbox, name); });
    Companion service;
    if (name.starts_with("service_")) {
      INGOT_ASSIGN_OR_RETURN(service, StartService(*sandbox, limits));
    }
    auto outcome = sandbox->Run(command, limits, nullptr);
    attack_ended_ = true;
    if (watcher.joinable()) watcher.join();
    attack_ended_ = false;
    return outcome;
  }

  // The harm that is seen from outside after an attack, and mends it for the next one; empty = none.
  std::string Harm() {
    std::string harm;
    if (left_.Count() != 0) harm = "it left processes behind";
    if (sibling_mark_.Count() != 1) harm = "the sibling is gone";
    if (!std::exchange(has_inotify_, true)) harm = "nothing of inotify is left for this user";
    if (std::exchange(was_reached_, false)) harm = "it listens on the machine";
    if (RemoveObjects()) harm = "it left objects of IPC behind";
    if (std::filesystem::exists(runs_ + "/taken")) {
      harm = "the run's folder was renamed";
      std::filesystem::rename(runs_ + "/taken", runs_ + "/run");
    }
    for (const std::string& folder : {runs_ + "/run", sibling_->work(), outside_, std::string("/tmp"),
                                      std::string("/var/tmp"), std::string("/dev/shm")}) {
      if (std::filesystem::remove(folder + "/planted-" + nonce_)) harm = "it wrote into " + folder;
    }
    return harm;
  }

 private:
  // What this process can still use while the attack holds what it took. A denied attack ends without output.
  void LookWhileHeld(Sandbox& sandbox, const std::string& name) {
    absl::StatusOr<std::string> held = sandbox.ReadFile("held", 100);
    for (int i = 0; i < 6000 && !held.ok() && !attack_ended_; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      held = sandbox.ReadFile("held", 100);
    }
    if (!held.ok()) return;
    if (name == "inotify") has_inotify_ = Fd(inotify_init1(IN_CLOEXEC)).valid();
    if (name == "listen") was_reached_ = Connects(std::stoi(*held));
    EXPECT_TRUE(sandbox.WriteFile("go", "").ok());
  }

  static bool Connects(int port) {
    const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }

  absl::StatusOr<Companion> StartService(Sandbox& sandbox, const Limits& limits) const {
    Command command{.argv = {"python3", "-c", kService},
                    .env = {{"PATH", "/usr/bin:/bin"}, {"KEY", "service's key"}, {"IPC_KEY", std::to_string(ipc_key_)}},
                    .working_dir = sandbox.work(),
                    .stdin_text = ""};
    INGOT_ASSIGN_OR_RETURN(Companion service, sandbox.StartCompanion(command, limits));
    pollfd gone{service.input.get(), 0, 0};
    while (!sandbox.ReadFile("service-ready", 1).ok() && poll(&gone, 1, 10) == 0) continue;
    return service;
  }

  // True: some were there.
  bool RemoveObjects() const {
    bool found = false;
    const auto removed = [&found](int id, auto remove) {
      if (id < 0) return;
      found = true;
      remove(id);
    };
    removed(shmget(ipc_key_, 0, 0), [](int id) { shmctl(id, IPC_RMID, nullptr); });
    removed(semget(ipc_key_, 0, 0), [](int id) { semctl(id, 0, IPC_RMID); });
    removed(msgget(ipc_key_, 0), [](int id) { msgctl(id, IPC_RMID, nullptr); });
    if (mq_unlink(("/planted-" + nonce_).c_str()) == 0) found = true;
    const std::string folder = "/dev/shm/folder-" + nonce_;
    if (access(folder.c_str(), F_OK) == 0) found = true;
    EXPECT_TRUE(RemoveTree(folder).ok());
    return found;
  }

  bool has_inotify_ = true, was_reached_ = false;
  std::atomic<bool> attack_ended_{false};
  const TestFolder folder_;
  const MarkedProcesses sibling_mark_, left_;
  const std::string nonce_ = base::RandomHex(8);
  const Listener service_{AF_INET}, abstract_{AF_UNIX};
  const int ipc_key_ = 0x10000000 + getpid();
  std::vector<Fd> channels_;
  std::string runs_, tasks_, outside_, shown_;
  Cancellation cancel_;
  std::unique_ptr<LocalSubstrate> substrate_;
  std::unique_ptr<Sandbox> sibling_;
  std::thread neighbour_;
};

}  // namespace ingot::sandbox
