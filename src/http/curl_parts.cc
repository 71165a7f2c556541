#include "http/curl_parts.h"

#include <arpa/inet.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/printable.h"
#include "base/secret.h"

namespace ingot::http {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMaxHead = 256 * 1024;  // limit on all of a response's heads together
constexpr long kAskFirstMs = 300;        // for servers that do not respond to Expect

// Starts over when another head arrives, because the previous one was an interim response such as 100 Continue.
size_t OnHeader(char* data, size_t size, size_t count, void* context) {
  auto& transfer = *static_cast<Transfer*>(context);
  const std::string line(data, size * count);
  transfer.head_bytes += line.size();
  transfer.too_large = transfer.head_bytes > kMaxHead;
  if (transfer.too_large) return 0;
  const size_t colon = line.find(':');
  if (line.starts_with("HTTP/")) {
    transfer.answer = {.status = std::atoi(line.c_str() + std::min(line.find(' '), line.size()))};
  } else if (colon != std::string::npos) {
    const absl::string_view text = base::View(std::string_view(line).substr(colon + 1));
    transfer.answer.headers[absl::AsciiStrToLower(line.substr(0, colon))] =
        std::string(absl::StripAsciiWhitespace(text));
  } else if (transfer.answer.status >= 200 && !std::exchange(transfer.head_given, true)) {
    if (transfer.request.on_head) transfer.request.on_head(transfer.answer);
  }
  return line.size();
}

size_t OnBody(char* data, size_t size, size_t count, void* context) {
  auto& transfer = *static_cast<Transfer*>(context);
  const std::string_view bytes(data, size * count);
  if (transfer.request.on_bytes) {
    transfer.ended_by_caller = !transfer.request.on_bytes(bytes);
    return transfer.ended_by_caller ? 0 : bytes.size();
  }
  transfer.too_large = std::ssize(transfer.answer.body) + std::ssize(bytes) > transfer.request.max_answer_bytes;
  if (transfer.too_large) return 0;
  transfer.answer.body += bytes;
  return bytes.size();
}

curl_socket_t OnSocket(void* context, curlsocktype, curl_sockaddr*) {
  auto& transfer = *static_cast<Transfer*>(context);
  auto made = transfer.request.make_socket();
  if (made.ok()) return made->Release();
  transfer.no_socket = made.status();
  return CURL_SOCKET_BAD;
}

// Parses the URL with libcurl, so all code interprets it the same way.
absl::StatusOr<Url> UrlOf(const std::string& text) {
  const size_t host = text.starts_with("http://") ? 7 : text.starts_with("https://") ? 8 : text.size();
  Url url(curl_url());
  const bool good = host < text.size() && text[host] != '/' && base::IsPrintable(text) && url != nullptr &&
                    curl_url_set(url.get(), CURLUPART_URL, text.c_str(), CURLU_DISALLOW_USER | CURLU_PATH_AS_IS) == 0;
  if (good) return url;
  return absl::InvalidArgumentError("the URL must begin with http:// or https:// and must not contain a user name");
}

bool IsLoopback(const Url& url) {
  char* text = nullptr;
  if (curl_url_get(url.get(), CURLUPART_HOST, &text, 0) != 0) return false;
  const std::unique_ptr<char, Freed<curl_free>> owner(text);
  const std::string host = absl::AsciiStrToLower(text);
  in_addr address{};
  return host == "localhost" || host == "[::1]" ||
         (inet_pton(AF_INET, host.c_str(), &address) == 1 && ntohl(address.s_addr) >> 24 == 127);
}

absl::Status AddLine(const std::string& line, HeaderList& list) {
  curl_slist* const longer = curl_slist_append(list.get(), line.c_str());
  if (longer == nullptr) return absl::ResourceExhaustedError("libcurl cannot allocate memory");
  (void)list.release();
  list.reset(longer);
  return absl::OkStatus();
}

// Returns INVALID_ARGUMENT if the server might interpret the header differently. The error does not show the value,
// which may be a key.
absl::Status AddHeader(const std::string& name, const std::string& value, HeaderList& list) {
  const auto in_name = [](unsigned char c) { return absl::ascii_isgraph(c) && c != ':' && c != '"'; };
  const auto in_value = [](unsigned char c) { return !absl::ascii_iscntrl(c) || c == '\t'; };
  if (name.empty() || !std::ranges::all_of(name, in_name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", base::Printable(name, {.max_bytes = 80}), "' is not a valid header name"));
  }
  if (!std::ranges::all_of(value, in_value)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the header '", name, "' contains a line break or another control character"));
  }
  // libcurl sends "X;" as an empty X, and sends nothing for "X:".
  const bool is_empty = absl::StripAsciiWhitespace(value).empty();
  return AddLine(is_empty ? name + ";" : absl::StrCat(name, ": ", value), list);
}

absl::StatusOr<HeaderList> HeadersOf(const ClientRequest& request) {
  HeaderList list;
  for (const auto& [name, value] : request.headers) INGOT_RETURN_IF_ERROR(AddHeader(name, value, list));
  if (!request.key.empty()) INGOT_RETURN_IF_ERROR(AddHeader("Authorization", "Bearer " + request.key, list));
  if (!request.asks_first) INGOT_RETURN_IF_ERROR(AddLine("Expect:", list));
  return list;
}

// Sets options and keeps the first error, so that a request is never sent with only some options set.
class CurlOptions {
 public:
  explicit CurlOptions(CURL* curl) : curl_(curl) {}
  template <typename Value>
  void Set(CURLoption option, Value value) {
    if (fault_ == CURLE_OK) fault_ = curl_easy_setopt(curl_, option, value);
  }
  void Set(CURLoption option, const std::string& text) { Set(option, text.c_str()); }
  void Set(CURLoption option, milliseconds time) {
    Set(option, static_cast<long>(std::clamp<int64_t>(time.count(), 1, INT_MAX)));
  }
  CURLcode fault() const { return fault_; }

 private:
  CURL* const curl_;
  CURLcode fault_ = CURLE_OK;
};

void SetTrust(const ClientRequest& request, CurlOptions& options) {
  const char* const file = std::getenv("SSL_CERT_FILE");
  const char* const folder = std::getenv("SSL_CERT_DIR");
  if (!request.ca.empty()) {
    options.Set(CURLOPT_CAINFO, request.ca);
    // Otherwise, libcurl's default certificate directory is trusted as well.
    options.Set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));
    return;
  }
  if (file != nullptr && *file != '\0') options.Set(CURLOPT_CAINFO, file);
  if (folder != nullptr && *folder != '\0') options.Set(CURLOPT_CAPATH, folder);
}

void SetTimes(const ClientRequest& request, CurlOptions& options) {
  const milliseconds connect = request.connect_timeout.count() > 0 ? request.connect_timeout : request.timeout;
  if (request.timeout.count() > 0) options.Set(CURLOPT_TIMEOUT_MS, request.timeout);
  if (connect.count() > 0) options.Set(CURLOPT_CONNECTTIMEOUT_MS, connect);
  if (request.stall_timeout.count() == 0) return;
  options.Set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  options.Set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.stall_timeout.count()));
}

CURLcode SetRequest(Transfer& transfer, const Url& url, const HeaderList& headers, CurlOptions& options) {
  const ClientRequest& request = transfer.request;
  options.Set(CURLOPT_NOSIGNAL, 1L);
  options.Set(CURLOPT_QUICK_EXIT, 1L);  // cleanup does not wait for a name lookup
  options.Set(CURLOPT_PROTOCOLS_STR, "http,https");
  options.Set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  options.Set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  options.Set(CURLOPT_CURLU, url.get());
  options.Set(CURLOPT_CUSTOMREQUEST, request.method);
  options.Set(CURLOPT_HTTPHEADER, headers.get());
  if (request.method == "POST" || request.method == "PUT") {
    options.Set(CURLOPT_POSTFIELDS, request.body.empty() ? "" : request.body.data());
    options.Set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    options.Set(CURLOPT_EXPECT_100_TIMEOUT_MS, kAskFirstMs);
  }
  if (request.signature.has_value()) {
    options.Set(CURLOPT_AWS_SIGV4, request.signature->service);
    options.Set(CURLOPT_USERNAME, request.signature->key_id);
    options.Set(CURLOPT_PASSWORD, request.signature->secret);
  }
  const bool is_remote = request.unix_socket.empty() && !request.make_socket && !IsLoopback(url);
  if (!is_remote || !request.uses_proxies) options.Set(CURLOPT_PROXY, "");
  if (!request.unix_socket.empty() || request.make_socket) {  // no other request uses such a connection
    options.Set(CURLOPT_FORBID_REUSE, 1L);
    options.Set(CURLOPT_FRESH_CONNECT, 1L);
  }
  if (request.make_socket) {
    options.Set(CURLOPT_IPRESOLVE, static_cast<long>(CURL_IPRESOLVE_V4));
    options.Set(CURLOPT_OPENSOCKETFUNCTION, &OnSocket);
    options.Set(CURLOPT_OPENSOCKETDATA, &transfer);
  }
  SetTrust(request, options);
  SetTimes(request, options);
  options.Set(CURLOPT_HEADERFUNCTION, &OnHeader);
  options.Set(CURLOPT_HEADERDATA, &transfer);
  options.Set(CURLOPT_WRITEFUNCTION, &OnBody);
  options.Set(CURLOPT_WRITEDATA, &transfer);
  return options.fault();
}

// For a failed connection, libcurl writes "Failed to connect to HOST port PORT after 0 ms: Couldn't connect to server".
// Replaces the end with the system's reason, such as "Connection refused".
std::string ReasonOf(CURL* curl, CURLcode code, const std::string& text) {
  if (text.empty()) return curl_easy_strerror(code);
  long error = 0;
  if (code != CURLE_COULDNT_CONNECT || curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &error) != CURLE_OK) return text;
  if (error == 0) return text;
  return absl::StrCat(text.substr(0, text.find(" after ")), ": ", std::strerror(static_cast<int>(error)));
}

absl::StatusOr<Answer> ResultOf(Transfer transfer, CURLcode code, const std::string& why) {
  if (transfer.too_large) return absl::ResourceExhaustedError("the response exceeds the size limit");
  if (transfer.cancelled) return absl::CancelledError("the caller gave up waiting");
  if (!transfer.no_socket.ok()) return transfer.no_socket;
  const bool ended = code == CURLE_OK || transfer.ended_by_caller;
  if (ended && transfer.answer.status == 0) return absl::UnavailableError("the response has no status");
  if (ended) return std::move(transfer.answer);
  if (code == CURLE_OPERATION_TIMEDOUT) return absl::DeadlineExceededError(why);
  const bool untrusted =
      code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE || code == CURLE_SSL_ISSUER_ERROR;
  return untrusted ? absl::PermissionDeniedError(why) : absl::UnavailableError(why);
}

}  // namespace

void InitCurl() {
  static const CURLcode made = curl_global_init(CURL_GLOBAL_DEFAULT);
  (void)made;
}

absl::Status CurlTransfer::Check() {
  const ClientRequest& request = transfer_.request;
  if (request.method.empty() || !std::ranges::all_of(request.method, absl::ascii_isupper)) {
    return absl::InvalidArgumentError("the request has no method");
  }
  INGOT_ASSIGN_OR_RETURN(url_, UrlOf(request.url));
  INGOT_ASSIGN_OR_RETURN(headers_, HeadersOf(request));
  if (!request.unix_socket.empty()) {
    INGOT_ASSIGN_OR_RETURN(socket_, NameOfSocket(request.unix_socket));
  }
  return absl::OkStatus();
}

CURLcode CurlTransfer::Prepare(CURL* easy) {
  CurlOptions options(easy);
  options.Set(CURLOPT_ERRORBUFFER, &reason_[0]);
  if (!socket_.path.empty()) options.Set(CURLOPT_UNIX_SOCKET_PATH, socket_.path);
  return SetRequest(transfer_, url_, headers_, options);
}

absl::StatusOr<Answer> CurlTransfer::Result(CURL* easy, CURLcode code) {
  const ClientRequest& request = transfer_.request;
  const std::string why = ReasonOf(easy, code, &reason_[0]);
  absl::StatusOr<Answer> answer = ResultOf(std::move(transfer_), code, why);
  if (answer.ok()) return answer;
  const std::string secret = request.signature.has_value() ? request.signature->secret : "";
  return base::WithoutKey(base::WithoutKey(answer.status(), request.key), secret);
}

}  // namespace ingot::http
