// One request on a libcurl handle. Shared by the blocking client (client.cc) and the streams (streams.cc), the only files
// that call libcurl.
#pragma once

#include <curl/curl.h>

#include <memory>
#include <string>

#include "base/status.h"
#include "http/client.h"
#include "http/unix_socket.h"

namespace ingot::http {

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* owned) const {
    Free(owned);
  }
};
using EasyHandle = std::unique_ptr<CURL, Freed<curl_easy_cleanup>>;
using MultiHandle = std::unique_ptr<CURLM, Freed<curl_multi_cleanup>>;
using Url = std::unique_ptr<CURLU, Freed<curl_url_cleanup>>;
using HeaderList = std::unique_ptr<curl_slist, Freed<curl_slist_free_all>>;

// Creates libcurl's global state before the first handle. It is never freed because other code may use it.
void InitCurl();

// A request's state, for libcurl callbacks.
struct Transfer {
  const ClientRequest& request;
  Answer answer = {};
  size_t head_bytes = 0;
  bool head_given = false, ended_by_caller = false, too_large = false, cancelled = false;
  absl::Status no_socket = {};
};

// Used by one thread at a time.
class CurlTransfer {
 public:
  // REQUIRES: `request` and its body outlive this object.
  explicit CurlTransfer(const ClientRequest& request) : transfer_{.request = request} {}

  // Returns INVALID_ARGUMENT if the method, URL, a header, or the socket's path is invalid.
  absl::Status Check();
  // Sets all of the handle's options. Callbacks then refer to this object. REQUIRES: Check returned OK.
  CURLcode Prepare(CURL* easy);
  // Returns the result for Client::Send after the transfer ended with `code`. Must be called before the handle is
  // reset.
  absl::StatusOr<Answer> Result(CURL* easy, CURLcode code);

  void set_cancelled() { transfer_.cancelled = true; }
  const ClientRequest& request() const { return transfer_.request; }

 private:
  Transfer transfer_;
  Url url_;
  HeaderList headers_;
  SocketName socket_;
  char reason_[CURL_ERROR_SIZE] = "";
};

}  // namespace ingot::http
