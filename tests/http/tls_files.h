// Certificates and keys for tests.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

namespace ingot::http {

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* owned) const {
    Free(owned);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;

// A folder with a.pem and a.key, b.pem and b.key, each self-signed for 127.0.0.1.
struct TlsFiles {
  TlsFiles() {
    std::string name = (std::filesystem::temp_directory_path() / "ingot-tls-XXXXXX").string();
    folder = ::mkdtemp(name.data());
    for (const char* stem : {"a", "b"}) Write(stem);
    std::ofstream(folder + "/text") << "not a certificate\n";
  }
  ~TlsFiles() { std::filesystem::remove_all(folder); }
  std::string operator()(const std::string& name) const { return folder + "/" + name; }

  void Write(const std::string& stem) const {
    const Key key(EVP_EC_gen("P-256"));
    const Certificate certificate(X509_new());
    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
    X509_set_pubkey(certificate.get(), key.get());
    X509_NAME* subject = X509_get_subject_name(certificate.get());
    const auto* text = reinterpret_cast<const unsigned char*>("127.0.0.1");
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, text, -1, -1, 0);
    X509_set_issuer_name(certificate.get(), subject);
    X509_sign(certificate.get(), key.get(), EVP_sha256());
    std::FILE* file = std::fopen((*this)(stem + ".pem").c_str(), "w");
    PEM_write_X509(file, certificate.get());
    std::fclose(file);
    file = std::fopen((*this)(stem + ".key").c_str(), "w");
    PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(file);
    file = std::fopen((*this)(stem + ".locked").c_str(), "w");
    PEM_write_PrivateKey(file, key.get(), EVP_aes_256_cbc(), text, 9, nullptr, nullptr);
    std::fclose(file);
  }

  std::string folder;
};

}  // namespace ingot::http
