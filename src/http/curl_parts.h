// The parts that every client of libcurl here needs: its start, owners of its objects, and the head of an answer.
#pragma once

#include <curl/curl.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace ingot::http {

// libcurl's own state, made before the first handle and never freed: other code of the process may use it.
void InitCurl();

struct CurlFree {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
};
using CurlHandle = std::unique_ptr<CURL, CurlFree>;

// Headers of a request, each "Name: value".
class CurlHeaders {
 public:
  void Add(const std::string& line);
  curl_slist* get() const { return list_.get(); }

 private:
  struct Free {
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };
  std::unique_ptr<curl_slist, Free> list_;
};

// The head of an answer, line by line as libcurl gives it to a CURLOPT_HEADERFUNCTION.
struct AnswerHead {
  int status = 0;
  std::map<std::string, std::string> headers = {};  // names in lower case

  // A line of a further answer begins anew: one before was such as 100 Continue. Returns whether the line ends a head.
  bool Add(std::string_view line);
};

}  // namespace ingot::http
