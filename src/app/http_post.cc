#include "app/http_post.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <chrono>
#include <exception>
#include <optional>

#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/clock.h"
#include "base/printable.h"
#include "base/waits.h"

namespace ingot::app {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr std::chrono::milliseconds kCancelCheck{100};

struct Address {
  bool tls = false;
  std::string host, port, target;
};

// nullopt: no URL of http or https with a host.
std::optional<Address> AddressOf(const std::string& url) {
  Address address;
  std::string rest;
  if (url.starts_with("http://")) {
    rest = url.substr(7);
  } else if (url.starts_with("https://")) {
    rest = url.substr(8);
    address.tls = true;
  } else {
    return std::nullopt;
  }
  const size_t path = rest.find_first_of("/?");
  address.target = path == std::string::npos ? "/" : rest.substr(path);
  if (address.target[0] == '?') address.target.insert(0, "/");
  std::string place = rest.substr(0, path);
  address.port = address.tls ? "443" : "80";
  const size_t colon = place.rfind(':');
  if (colon != std::string::npos && place.find(']', colon) == std::string::npos) {  // not inside an IPv6 address
    address.port = place.substr(colon + 1);
    place.resize(colon);
  }
  if (place.size() > 2 && place.front() == '[' && place.back() == ']') place = place.substr(1, place.size() - 2);
  address.host = place;
  const bool good = !place.empty() && !address.port.empty() && base::IsPrintable(url) &&
                    place.find_first_of(" @") == std::string::npos && address.target.find(' ') == std::string::npos;
  return good ? std::optional(address) : std::nullopt;
}

std::string Hidden(const std::string& text, const std::string& key) {
  return key.empty() ? text : absl::StrReplaceAll(text, {{key, "[the key]"}});
}

using Request = http::request<http::string_body>;
using Response = http::response<http::string_body>;

Request RequestFor(const HttpPost& post, const Address& address) {
  Request request(http::verb::post, address.target, 11);
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  request.set(http::field::host, is_ipv6 ? absl::StrCat("[", address.host, "]") : address.host);
  request.set(http::field::content_type, "application/json");
  request.set(http::field::accept, "application/json");
  request.set(http::field::user_agent, "ingot");
  request.set(http::field::connection, "close");
  if (!post.key.empty()) request.set(http::field::authorization, "Bearer " + post.key);
  request.body() = post.body;
  request.prepare_payload();
  return request;
}

template <typename Stream>
asio::awaitable<Response> Exchange(Stream& stream, const Request& request, int64_t max_answer_bytes) {
  co_await http::async_write(stream, request, asio::use_awaitable);
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(static_cast<uint64_t>(max_answer_bytes));
  co_await http::async_read(stream, buffer, parser, asio::use_awaitable);
  co_return parser.release();
}

asio::awaitable<Response> Talk(const HttpPost& post, const Address& address, asio::ssl::context& tls,
                               std::chrono::nanoseconds timeout) {
  const auto executor = co_await asio::this_coro::executor;
  asio::ip::tcp::resolver resolver(executor);
  const auto places = co_await resolver.async_resolve(address.host, address.port, asio::use_awaitable);
  const Request request = RequestFor(post, address);
  if (!address.tls) {
    beast::tcp_stream stream(executor);
    stream.expires_after(timeout);
    co_await stream.async_connect(places, asio::use_awaitable);
    co_return co_await Exchange(stream, request, post.max_answer_bytes);
  }
  beast::ssl_stream<beast::tcp_stream> stream(executor, tls);
  beast::get_lowest_layer(stream).expires_after(timeout);
  stream.set_verify_mode(asio::ssl::verify_peer);
  stream.set_verify_callback(asio::ssl::host_name_verification(address.host));
  SSL_set_tlsext_host_name(stream.native_handle(), address.host.c_str());
  co_await beast::get_lowest_layer(stream).async_connect(places, asio::use_awaitable);
  co_await stream.async_handshake(asio::ssl::stream_base::client, asio::use_awaitable);
  co_return co_await Exchange(stream, request, post.max_answer_bytes);
}

absl::StatusOr<std::string> BodyOf(const HttpPost& post, Response response) {
  const unsigned status = response.result_int();
  if (status == 200) return std::move(response.body());
  const std::string text = absl::StrCat(post.url, " answered ", status, ": ",
                                        base::Printable(Hidden(response.body(), post.key), {.max_bytes = 300}));
  return status == 429 || status >= 500 ? absl::UnavailableError(text) : absl::FailedPreconditionError(text);
}

absl::Status FaultOf(const HttpPost& post, const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const boost::system::system_error& fault) {
    if (fault.code() == beast::error::timeout || fault.code() == asio::error::operation_aborted) {
      return absl::DeadlineExceededError(absl::StrCat(post.url, " gave no answer within ", post.timeout_s, " s"));
    }
    return absl::UnavailableError(absl::StrCat(post.url, ": ", fault.code().message()));
  } catch (const std::exception& fault) {
    return absl::UnavailableError(absl::StrCat(post.url, ": ", fault.what()));
  }
}

}  // namespace

absl::StatusOr<std::string> Post(const HttpPost& post) {
  const std::optional<Address> address = AddressOf(post.url);
  if (!address.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", base::Printable(post.url, {.max_bytes = 200}), "' is no http:// or https:// URL"));
  }
  const std::chrono::nanoseconds timeout = base::FromSeconds(post.timeout_s);
  const base::Wait wait(absl::StrCat("an answer of ", address->host), base::WaitKind::kWork);
  asio::ssl::context tls(asio::ssl::context::tls_client);
  boost::system::error_code ignored;
  if (address->tls) tls.set_default_verify_paths(ignored);  // without any, every certificate is refused
  std::optional<absl::StatusOr<std::string>> result;
  asio::io_context loop;
  asio::co_spawn(loop, Talk(post, *address, tls, timeout), [&](const std::exception_ptr& error, Response response) {
    result = error != nullptr ? FaultOf(post, error) : BodyOf(post, std::move(response));
  });
  // A name that is being resolved has no deadline of its own.
  const auto deadline = std::chrono::steady_clock::now() + timeout + std::chrono::seconds(1);
  while (!result.has_value() && std::chrono::steady_clock::now() < deadline) {
    if (post.cancelled != nullptr && post.cancelled())
      return absl::CancelledError(post.url + ": nobody waits any more");
    loop.run_for(post.cancelled == nullptr ? deadline - std::chrono::steady_clock::now()
                                           : std::chrono::steady_clock::duration(kCancelCheck));
  }
  if (result.has_value()) return *std::move(result);
  return absl::DeadlineExceededError(absl::StrCat(post.url, " gave no answer within ", post.timeout_s, " s"));
}

std::string ChatCompletionsUrl(const std::string& base) {
  return absl::StrCat(absl::StripSuffix(base, "/"), "/chat/completions");
}

absl::Status WithoutKey(const absl::Status& error, const std::string& key) {
  return absl::Status(error.code(), Hidden(std::string(error.message()), key));
}

}  // namespace ingot::app
