// Defines the interface between the HTTP server and its request handlers. The server owns sockets, limits, and
// deadlines. A Handler creates one Exchange per request, which produces the response.
//
//   server                                  handler
//     Handler::Head(head) ----------------> returns an Exchange, or rejects the request
//     Exchange::Body(body, wake) ---------> starts the work
//     <------------------------- wake()     on any thread: Send has new output
//     Exchange::Send() -------------------> returns the full response, or the next bytes of a stream
//     Exchange::Closed(side) -------------> ends the work: the response will not be read
//
// Bytes are pulled, not pushed. The server calls Send again only after the socket has accepted all bytes from the
// previous call. This gives streams backpressure: bytes for a slow client wait in the handler, which may merge them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ingot::http {

using Fields = std::vector<std::pair<std::string, std::string>>;  // header names and values

// A request without its body.
struct RequestHead {
  std::string method;
  std::string target;  // as sent by the client: a path with or without a query, or an absolute URI
  Fields fields;       // in the order received, with names as sent by the client
  // Returns true if the client has disconnected and will not read the response. Queries the system, so it also detects
  // a disconnect that the server's threads have not seen yet. Thread safe. Blocks for up to one second if the client
  // closed only its sending side. Null = the request did not arrive over a connection.
  std::function<bool()> client_gone = nullptr;

  // Returns the value of the first header with this name, ignoring case, or "" if there is none.
  std::string_view Find(std::string_view name) const;
  // Returns the request's key from the first of these headers that is present: Authorization (Bearer), x-api-key,
  // x-goog-api-key. Returns "" if there is none.
  std::string Key() const;
};

// A complete response. The server adds Date, Server, Content-Length, and Connection.
struct Reply {
  int status = 200;
  std::string content_type = "application/json";
  Fields fields = {};  // additional headers
  std::string body = {};
  // Called at most once, on any thread, if the client most likely did not read this response: it disconnected earlier,
  // the bytes could not be written, or it reset the connection within seconds and before another request. Must not
  // block. Set this if the request created something that only the client can end. Code that drops an unsent Reply
  // calls it (DropReply). Null = nothing to do.
  std::function<void()> unread = nullptr;
};
// Drops a reply that will not be read.
inline void DropReply(Reply& reply) {
  if (const auto unread = std::exchange(reply.unread, nullptr)) unread();
}

// The head of a status 200 response whose bytes arrive over time. The server adds Date, Server, and Connection. For
// HTTP/1.1, it also adds chunked encoding.
struct StreamHead {
  std::string content_type;
  Fields fields = {};  // additional headers
  // Bytes that clients of this stream ignore, such as a comment in server-sent events. The server sends them after
  // Options::keepalive_s of silence, and to find out whether a client that closed its sending side is still reading.
  // Empty = nothing is sent, and such a client is considered gone.
  std::string filler = {};
};

// The result of an Exchange::Send call. At most one of `reply` and `stream` is set, and only once per exchange.
struct Output {
  std::optional<Reply> reply = {};        // the full response, which ends the exchange
  std::optional<StreamHead> stream = {};  // starts a stream, with `data` as its first bytes
  std::string data = {};                  // the next bytes of the stream
  bool done = false;    // `data` contains the last bytes; if there was no response, the connection is closed
  bool broken = false;  // the stream is incomplete, so the connection is closed after `data`
};

// The reason why the server itself rejects a request or a connection. The client may see all of it.
struct Rejection {
  int status = 400;
  std::string code;  // a machine-readable code, such as "body_too_large"
  std::string message;
};

// The side that ended the connection and stopped an exchange.
enum class Side {
  // The client disconnected, did not read for Options::write_timeout_s, or requested only a stream's head.
  kClient,
  kServer,  // the server was stopped
};

// A request and its response. Implementations must follow these rules:
// 1. The server calls Body, Send, and Closed one at a time on the connection's thread. They must not block.
// 2. Body is called at most once, before any Send. It is not called if the request's body does not arrive.
// 3. `wake` may be called on any thread and any number of times, including from within Body and after the exchange
//    is destroyed. Call it whenever Send has new output, because the server calls Send only then.
// 4. Another Send call means that the client's system accepted all bytes from the previous call.
// 5. Closed is called at most once, and Send is never called after it. Closed is not called after a complete response.
// 6. The server releases the Exchange after Closed or at the end of the response. Work that is still running at that
//    point must own its memory.
// 7. HEAD may get the same response as GET, because the server sends only the head. It calls Closed for an
//    unfinished stream.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual void Body(std::string body, std::function<void()> wake) = 0;
  virtual Output Send() = 0;
  virtual void Closed(Side side) = 0;
};

// A handler's decision about a request head.
struct Opening {
  std::shared_ptr<Exchange> exchange = nullptr;  // null = `rejection` is the response
  // Sent immediately if there is no exchange. The body is not read. If there is one, the connection is closed.
  Reply rejection = {};
  int64_t max_body_bytes = -1;  // longer bodies get 413; -1 = Options::max_body_bytes, which is also the maximum
};

// Answers a server's requests. Implementations must follow these rules:
// 1. Head and Reject may be called concurrently on any of the server's threads. They must not block.
// 2. A Handler must outlive its server.
// 3. Reject formats an error detected by the server, such as 413, 431, or 503, and sets `status` to `why.status`.
//    `target` may be truncated, and is empty if it was not read.
class Handler {
 public:
  virtual ~Handler() = default;
  virtual Opening Head(RequestHead head) = 0;
  // The default returns the message as plain text.
  virtual Reply Reject(std::string_view target, const Rejection& why);
};

// Returns an exchange whose response depends only on the body. `answer` runs inside Body on the connection's thread and
// must not block.
std::shared_ptr<Exchange> MakeExchange(std::function<Reply(const std::string& body)> answer);

// Returns an exchange whose response takes time. `post` runs the work on a thread where `answer` may block. If it
// returns false, the queue is full and `busy` responds immediately.
struct Work {
  std::function<bool(std::function<void()> work)> post;
  std::function<Reply(std::string body)> answer;
  std::function<Reply()> busy;
  bool skip_if_gone = false;  // does not start `answer` if the client has disconnected
};
std::shared_ptr<Exchange> MakeExchange(Work work);

}  // namespace ingot::http
