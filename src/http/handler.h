// The interface between the HTTP server and the code that serves something over it. The server owns sockets, limits and
// deadlines. A Handler answers: it gives the server one Exchange for each request.
//
//   server                                  handler
//     Handler::Head(head) ----------------> an Exchange, or a rejection of the request
//     Exchange::Body(body, wake) ---------> begins the work
//     <------------------------- wake()     from any thread: Send has something new
//     Exchange::Send() -------------------> the whole answer, or the next bytes of a stream
//     Exchange::Closed(side) -------------> ends the work: the answer will not be read
//
// Bytes are pulled, never pushed: the server calls Send again only when the socket has taken all bytes of the previous
// call. This gives a stream backpressure: a slow client's bytes wait in the handler, which may join them.
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

using Fields = std::vector<std::pair<std::string, std::string>>;  // headers: name and value

// A request without its body.
struct RequestHead {
  std::string method;
  std::string target;  // as the client wrote it: a path with or without a query, or an absolute URI
  Fields fields;       // in the order they came, each name as the client wrote it
  // Whether the client has gone and will not read the answer. Asks the system at that moment, so that it knows what the
  // server's threads may not have seen yet. Thread safe. Blocks for at most a second, for a client that closed only its
  // sending side. Null = the request came by another way.
  std::function<bool()> client_gone = nullptr;

  // The value of the first field with this name, ignoring case. Empty = there is none.
  std::string_view Find(std::string_view name) const;
  // The request's key, from Authorization: Bearer, otherwise x-api-key, otherwise x-goog-api-key. Empty = none.
  std::string Key() const;
};

// A whole answer. The server adds Date, Server, Content-Length and Connection.
struct Reply {
  int status = 200;
  std::string content_type = "application/json";
  Fields fields = {};  // more headers
  std::string body = {};
  // Called at most once, on any thread, when the client most likely did not read this answer: it left before, the bytes
  // could not be written, or it reset the connection within seconds, before another request. Must not block. Set it on
  // an answer that made something which only its reader can end. Code that drops an unsent Reply calls it (DropReply).
  // Null = nothing to do.
  std::function<void()> unread = nullptr;
};
// Drops a reply that will not be read.
inline void DropReply(Reply& reply) {
  if (const auto unread = std::exchange(reply.unread, nullptr)) unread();
}

// The head of an answer with status 200 whose bytes arrive bit by bit. The server adds Date, Server, Connection and, in
// HTTP/1.1, chunks.
struct StreamHead {
  std::string content_type;
  Fields fields = {};  // more headers
  // Bytes that mean nothing in this stream, such as a comment in server-sent events. The server sends them after
  // Options::keepalive_s of silence, and to learn whether a client that closed its sending side still reads. Empty =
  // neither: then such a client counts as gone.
  std::string filler = {};
};

// The result of one Exchange::Send. At most one of `reply` and `stream` is set, and only once in an exchange.
struct Output {
  std::optional<Reply> reply = {};        // the whole answer; it ends the exchange
  std::optional<StreamHead> stream = {};  // a stream begins, with `data` as its first bytes
  std::string data = {};                  // the next bytes of the stream
  bool done = false;                      // `data` are the last bytes. Without any answer the connection closes
  bool broken = false;                    // the stream lacks its end: the connection closes after `data`
};

// Why the server itself rejects a request or a connection. The client may see all of it.
struct Rejection {
  int status = 400;
  std::string code;  // one word for programs, such as "body_too_large"
  std::string message;
};

// The end of a connection that stopped an exchange.
enum class Side {
  kClient,  // the client went away, did not read for Options::write_timeout_s, or asked only for the head of a stream
  kServer,  // the server was stopped
};

// One request and its answer. Obligations of an implementer:
//   1. The server calls Body, Send and Closed one at a time, on the thread of the connection. None of them may block.
//   2. Body is called at most once, before any Send. It is not called for a request whose body does not arrive.
//   3. `wake` may be called from any thread, as often as wanted, also within Body and after the exchange is gone. Call
//      it after each change that makes Send return something new: the server calls Send for no other reason.
//   4. Another Send means that the client's system took all bytes of the previous Send.
//   5. Closed is called at most once, and Send never after it. An answer that was sent whole is not followed by Closed.
//   6. The server drops the Exchange after Closed or the end of the answer. Work that still runs then must own its
//      memory.
//   7. HEAD may get the same answer as GET: the server sends only its head. It then calls Closed on an unfinished
//      stream.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual void Body(std::string body, std::function<void()> wake) = 0;
  virtual Output Send() = 0;
  virtual void Closed(Side side) = 0;
};

// A handler's decision on a request's head.
struct Opening {
  std::shared_ptr<Exchange> exchange = nullptr;  // null = `rejection` is the answer
  // Without an exchange, sent at once. The body is not read: if there is one, the connection closes afterwards.
  Reply rejection = {};
  int64_t max_body_bytes = -1;  // longer bodies get 413. -1 = Options::max_body_bytes, which no handler can exceed
};

// Answers a server's requests. Obligations of an implementer:
//   1. Head and Reject are called on any of the server's threads, also at the same time. Neither may block.
//   2. A Handler outlives its server.
//   3. Reject words an error that the server found, such as 413, 431 or 503, and sets `status` to `why.status`.
//      `target` may be cut, and is empty if none was read.
class Handler {
 public:
  virtual ~Handler() = default;
  virtual Opening Head(RequestHead head) = 0;
  // The default: the message as plain text.
  virtual Reply Reject(std::string_view target, const Rejection& why);
};

// An exchange whose answer needs no more than the body: `answer` runs within Body, on the connection's thread, and must
// not block.
std::shared_ptr<Exchange> MakeExchange(std::function<Reply(const std::string& body)> answer);

// An exchange whose answer takes a while. `post` gives the work to a thread, where `answer` may block; false: the queue
// is full, and `busy` answers at once.
struct Work {
  std::function<bool(std::function<void()> work)> post;
  std::function<Reply(std::string body)> answer;
  std::function<Reply()> busy;
  bool skip_if_gone = false;  // `answer` is not begun for a client that has gone
};
std::shared_ptr<Exchange> MakeExchange(Work work);

}  // namespace ingot::http
