#include "http/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/file.h"

namespace ingot::http {
namespace {

namespace ssl = boost::asio::ssl;

absl::Status CheckReadable(const char* what, const std::string& path) {
  return base::Annotate(base::ReadFile(path).status(), absl::StrCat("tls: the ", what));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ssl::context>> NewTlsContext(const std::string& certificate, const std::string& key) {
  INGOT_RETURN_IF_ERROR(CheckReadable("certificate", certificate));
  INGOT_RETURN_IF_ERROR(CheckReadable("key", key));
  auto context = std::make_unique<ssl::context>(ssl::context::tls_server);
  boost::system::error_code error;
  context->set_options(ssl::context::default_workarounds | ssl::context::no_sslv2 | ssl::context::no_sslv3 |
                           ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1 | SSL_OP_NO_RENEGOTIATION,
                       error);
  // Otherwise, OpenSSL would prompt for a key's passphrase on the terminal.
  context->set_password_callback([](size_t, ssl::context::password_purpose) { return std::string(); }, error);
  context->use_certificate_chain_file(certificate, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("tls: '", certificate, "' is not a PEM certificate: ", error.message()));
  }
  context->use_private_key_file(key, ssl::context::pem, error);
  if (error) {
    // OpenSSL compares the key with the certificate while reading it.
    const bool mismatch = ERR_GET_REASON(error.value()) == X509_R_KEY_VALUES_MISMATCH ||
                          ERR_GET_REASON(error.value()) == X509_R_KEY_TYPE_MISMATCH;
    return absl::InvalidArgumentError(
        mismatch ? absl::StrCat("tls: the key '", key, "' does not match the certificate '", certificate, "'")
                 : absl::StrCat("tls: '", key, "' is not a PEM private key without a passphrase: ", error.message()));
  }
  if (SSL_CTX_check_private_key(context->native_handle()) != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("tls: the key '", key, "' does not match the certificate '", certificate, "'"));
  }
  return context;
}

absl::Status CheckTrusted(const std::string& file) {
  INGOT_RETURN_IF_ERROR(CheckReadable("trusted certificates", file));
  ssl::context context(ssl::context::tls_client);
  boost::system::error_code error;
  context.load_verify_file(file, error);
  if (!error) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("tls: '", file, "' has no PEM certificate: ", error.message()));
}

absl::Status CheckSigned(const std::string& certificate, const std::string& ca) {
  ssl::context context(ssl::context::tls_client);
  boost::system::error_code error;
  context.load_verify_file(ca, error);
  if (!error) context.use_certificate_chain_file(certificate, error);
  if (error) return absl::InvalidArgumentError(absl::StrCat("tls: '", certificate, "', '", ca, "': ", error.message()));
  SSL_CTX* const own = context.native_handle();
  STACK_OF(X509)* chain = nullptr;
  SSL_CTX_get0_chain_certs(own, &chain);
  X509_STORE_CTX* const check = X509_STORE_CTX_new();
  const bool valid =
      check != nullptr &&
      X509_STORE_CTX_init(check, SSL_CTX_get_cert_store(own), SSL_CTX_get0_certificate(own), chain) == 1 &&
      X509_verify_cert(check) == 1;
  const int reason = check != nullptr ? X509_STORE_CTX_get_error(check) : X509_V_ERR_OUT_OF_MEM;
  X509_STORE_CTX_free(check);
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the certificate '", certificate,
                                                 "' would be rejected by peers that trust '", ca,
                                                 "': ", X509_verify_cert_error_string(reason)));
}

}  // namespace ingot::http
