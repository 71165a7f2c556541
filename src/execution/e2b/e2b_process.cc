#include "execution/e2b/e2b_process.h"

#include <csignal>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "base/utf8.h"
#include "execution/e2b/connect.h"
#include "execution/e2b/e2b_sandboxes.h"
#include "execution/fields.h"
#include "execution/program_feeds.h"
#include "execution/requests.h"

namespace ingot::execution {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

absl::StatusOr<Program> ProgramOf(const value& request) {
  static const value kNothing;
  if (base::Find(request, "pty") != nullptr) return absl::UnimplementedError("terminals (pty) are not supported");
  const value* const found = base::Find(request, "process");
  const value& config = found == nullptr ? kNothing : *found;
  Program program;
  INGOT_ASSIGN_OR_RETURN(std::string command, TextField(config, "cmd", ""));
  program.argv.push_back(std::move(command));
  if (const value* const arguments = base::Find(config, "args"); arguments != nullptr && arguments->is_array()) {
    for (const value& argument : arguments->get_array()) {
      INGOT_ASSIGN_OR_RETURN(std::string text, TextOf(argument, "process.args"));
      program.argv.push_back(std::move(text));
    }
  }
  INGOT_ASSIGN_OR_RETURN(program.env, MapField(config, "envs"));
  INGOT_ASSIGN_OR_RETURN(program.folder, TextField(config, "cwd", ""));
  INGOT_ASSIGN_OR_RETURN(program.tag, TextField(request, "tag", ""));
  const value* const has_input = base::Find(request, "stdin");
  program.has_input = has_input == nullptr || !has_input->is_bool() || has_input->get_bool();
  return program;
}

object ConfigJson(const Program& program) {
  object envs;
  array arguments;
  for (const auto& [name, text] : program.env) envs[name] = base::ToUtf8(text);
  for (size_t i = 1; i < program.argv.size(); ++i) arguments.push_back(value(base::ToUtf8(program.argv[i])));
  object config = {{"cmd", base::ToUtf8(program.argv[0])}, {"args", std::move(arguments)}, {"envs", std::move(envs)}};
  config["cwd"] = base::ToUtf8(program.folder);
  return config;
}

absl::StatusOr<std::shared_ptr<Process>> ProcessOf(Session& session, const value& request) {
  const value* const selector = base::Find(request, "process");
  const value* const pid = selector == nullptr ? nullptr : base::Find(*selector, "pid");
  const value* const tag = selector == nullptr ? nullptr : base::Find(*selector, "tag");
  if (pid != nullptr && pid->is_int64()) {
    if (auto process = session.FindPid(static_cast<uint32_t>(pid->get_int64()))) return process;
    return absl::NotFoundError(absl::StrCat("no running process has the id ", pid->get_int64()));
  }
  if (tag == nullptr || !tag->is_string()) return absl::InvalidArgumentError("'process' needs a pid or a tag");
  for (auto& process : session.Processes()) {
    if (process->program().tag == std::string_view(tag->get_string())) return process;
  }
  return absl::NotFoundError(absl::StrCat("no running process has the tag '", std::string(tag->get_string()), "'"));
}

object Message(object event) { return {{"event", std::move(event)}}; }

object EndEvent(const ProcessEnd& end) {
  const bool exited = end.ending == sandbox::Ending::kExited;
  const std::string status =
      exited ? absl::StrCat("exit status ", end.exit_code) : absl::StrCat("signal: ", strsignal(end.signal));
  object event = {{"exitCode", exited ? end.exit_code : -1}, {"exited", exited}, {"status", status}};
  if (!exited) event["error"] = status;
  return Message({{"end", std::move(event)}});
}

ProgramWords Words() {
  http::StreamHead head{.content_type = "application/connect+json"};
  head.filler = Envelope(Message({{"keepalive", object()}}));
  return {
      .head = std::move(head),
      .start = [](const Process& process) { return Envelope(Message({{"start", object{{"pid", process.pid()}}}})); },
      .chunk =
          [](const Chunk& chunk) {
            const std::string bytes = absl::Base64Escape(chunk.bytes);
            const char* const stream = chunk.stream == Stream::kOut ? "stdout" : "stderr";
            return Envelope(Message({{"data", object{{stream, bytes}}}}));
          },
      .end =
          [](const ProcessEnd& end) {
            if (end.ending == sandbox::Ending::kCancelled) return EndEnvelope(absl::UnavailableError(end.why));
            if (end.ending == sandbox::Ending::kTimedOut)
              return EndEnvelope(absl::DeadlineExceededError("the program ran past its time limit and was killed"));
            return Envelope(EndEvent(end)) + EndEnvelope(absl::OkStatus());
          },
      .ends_program = false};
}

absl::Status SendInput(Session& session, Process& process, const value& holder) {
  const value* const input = base::Find(holder, "input");
  const value* const text = input == nullptr ? nullptr : base::Find(*input, "stdin");
  if (text == nullptr || !text->is_string()) return absl::InvalidArgumentError("'input.stdin' must be base64");
  std::string bytes;
  if (!absl::Base64Unescape(base::View(text->get_string()), &bytes))
    return absl::InvalidArgumentError("'input.stdin' must be base64");
  return session.Send(process, bytes);
}

absl::StatusOr<object> StreamInput(Session& session, const std::string& body) {
  INGOT_ASSIGN_OR_RETURN(const std::vector<value> messages, ReadEnvelopes(body));
  std::shared_ptr<Process> process;
  for (const value& message : messages) {
    // A oneof: {"start": ..}, {"data": ..}, or {"keepalive": ..}.
    if (const value* const start = base::Find(message, "start")) {
      INGOT_ASSIGN_OR_RETURN(process, ProcessOf(session, *start));
    } else if (const value* const data = base::Find(message, "data")) {
      if (process == nullptr) return absl::InvalidArgumentError("data arrived before the message with the process");
      INGOT_RETURN_IF_ERROR(SendInput(session, *process, *data));
    }
  }
  return object();
}

absl::StatusOr<object> SendSignal(Session& session, const Process& process, const value& request) {
  const value* const name = base::Find(request, "signal");
  const std::string signal = name != nullptr && name->is_string() ? std::string(name->get_string()) : "";
  if (signal != "SIGNAL_SIGKILL" && signal != "SIGNAL_SIGTERM")
    return absl::InvalidArgumentError("'signal' is SIGNAL_SIGKILL or SIGNAL_SIGTERM");
  session.Signal(process, signal == "SIGNAL_SIGKILL" ? SIGKILL : SIGTERM);
  return object();
}

}  // namespace

std::variant<http::Reply, std::shared_ptr<Feed>> E2bProcess::Open(const http::RequestHead& head,
                                                                  const std::string& path, const std::string& body,
                                                                  std::function<void()> wake) {
  const std::string method = path.substr(path.rfind('/') + 1);
  if (method != "Start" && method != "Connect") {
    const auto answer = Unary(head, method, body);
    if (method != "StreamInput") return ConnectReply(answer);
    if (!answer.ok()) return StreamError(answer.status());
    http::Reply reply = StreamError(absl::OkStatus());
    reply.body = Envelope(*answer) + reply.body;
    return reply;
  }
  auto stream = Stream(head, method, body, std::move(wake));
  if (!stream.ok()) return StreamError(stream.status());
  return *std::move(stream);
}

absl::StatusOr<std::shared_ptr<Feed>> E2bProcess::Stream(const http::RequestHead& head, const std::string& method,
                                                         const std::string& body, std::function<void()> wake) {
  INGOT_RETURN_IF_ERROR(CheckConnect(head, true));
  INGOT_ASSIGN_OR_RETURN(std::shared_ptr<HeldSession> held, FindSandbox(store_, head));
  INGOT_ASSIGN_OR_RETURN(const std::vector<value> messages, ReadEnvelopes(body));
  if (messages.size() != 1) return absl::InvalidArgumentError("this method accepts exactly one message");
  Session::StartedProgram started;
  if (method == "Start") {
    INGOT_ASSIGN_OR_RETURN(Program program, ProgramOf(messages[0]));
    program.wall_time = ConnectTimeout(head);
    INGOT_ASSIGN_OR_RETURN(started, held->session->Start(std::move(program), std::move(wake)));
  } else {
    INGOT_ASSIGN_OR_RETURN(started.process, ProcessOf(*held->session, messages[0]));
    started.subscription = started.process->Subscribe(std::move(wake));
  }
  return MakeProgramFeed(std::move(held), std::move(started), Words());
}

absl::StatusOr<object> E2bProcess::Unary(const http::RequestHead& head, const std::string& method,
                                         const std::string& body) {
  INGOT_RETURN_IF_ERROR(CheckConnect(head, method == "StreamInput"));
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<HeldSession> held, FindSandbox(store_, head));
  Session& session = *held->session;
  if (method == "StreamInput") return StreamInput(session, body);
  if (method == "List") {
    array list;
    for (const auto& process : session.Processes()) {
      if (process->program().has_notes) continue;  // an interpreter
      object info = {{"config", ConfigJson(process->program())}, {"pid", process->pid()}};
      if (!process->program().tag.empty()) info["tag"] = process->program().tag;
      list.push_back(std::move(info));
    }
    return object{{"processes", std::move(list)}};
  }
  if (method != "SendInput" && method != "SendSignal" && method != "CloseStdin")
    return absl::UnimplementedError(absl::StrCat("process.Process has no ", method, " here"));
  INGOT_ASSIGN_OR_RETURN(const value request, ParseObject(body));
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<Process> process, ProcessOf(session, request));
  if (method == "SendSignal") return SendSignal(session, *process, request);
  INGOT_RETURN_IF_ERROR(method == "SendInput" ? SendInput(session, *process, request) : session.CloseInput(*process));
  return object();
}

}  // namespace ingot::execution
