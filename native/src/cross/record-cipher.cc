#include "record-cipher.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace hvd {

namespace {

using Context = evp_cipher_ctx_st;
using Bytes = unsigned char;

// What we call of libcrypto; the same in every version from 1.1 on.
struct Library {
  Context* (*context_new)();
  void (*context_free)(Context*);
  int (*control)(Context*, int type, int argument, void* pointer);
  const void* (*aes_256_gcm)();
  int (*init)(Context*, const void* cipher, void* engine, const Bytes* key, const Bytes* nonce, int encrypts);
  int (*update)(Context*, Bytes* out, int* written, const Bytes* in, int bytes);
  int (*final)(Context*, Bytes* out, int* written);
  void (*cleanse)(void*, size_t);
  const char* missing = nullptr;
};

template <class Function>
void find(Library& library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  if (function == nullptr && library.missing == nullptr) library.missing = name;
}

const Library& library() {
  static const Library found = [] {
    Library library;
    find(library, library.context_new, "EVP_CIPHER_CTX_new");
    find(library, library.context_free, "EVP_CIPHER_CTX_free");
    find(library, library.control, "EVP_CIPHER_CTX_ctrl");
    find(library, library.aes_256_gcm, "EVP_aes_256_gcm");
    find(library, library.init, "EVP_CipherInit_ex");
    find(library, library.update, "EVP_CipherUpdate");
    find(library, library.final, "EVP_CipherFinal_ex");
    find(library, library.cleanse, "OPENSSL_cleanse");
    return library;
  }();
  return found;
}

// Of <openssl/evp.h>.
constexpr int get_tag = 0x10, set_tag = 0x11;
constexpr size_t nonce_bytes = 12;

struct Nonce {
  Bytes bytes[nonce_bytes] = {};
  explicit Nonce(uint64_t number) {
    for (size_t i = 0; i < sizeof number; i++) bytes[nonce_bytes - 1 - i] = static_cast<Bytes>(number >> 8 * i);
  }
};

Bytes* as_bytes(void* data) { return static_cast<Bytes*>(data); }
const Bytes* as_bytes(const void* data) { return static_cast<const Bytes*>(data); }

}  // namespace

const char* encryption_lack() { return library().missing; }

RecordCipher::RecordCipher(Use use, const char* key, uint64_t rekey_every) : use_(use), rekey_every_(rekey_every) {
  if (encryption_lack() != nullptr) throw std::system_error(ENOSYS, std::generic_category(), "no libcrypto");
  context_ = library().context_new();
  if (context_ == nullptr) throw std::system_error(ENOMEM, std::generic_category(), "libcrypto");
  if (!set_key(key)) {
    library().context_free(context_);
    throw std::system_error(ENOTSUP, std::generic_category(), "libcrypto has no AES-256-GCM");
  }
}

RecordCipher::~RecordCipher() {
  library().context_free(context_);
  library().cleanse(key_, sizeof key_);
}

bool RecordCipher::set_key(const char* key) {
  std::memcpy(key_, key, key_bytes);
  return library().init(context_, library().aes_256_gcm(), nullptr, as_bytes(key_), nullptr, use_ == Use::seal) == 1;
}

bool RecordCipher::rekey() {
  const Nonce last(~uint64_t{0});
  const char zeros[key_bytes] = {};
  char key[key_bytes];
  int written = 0;
  const bool is_made =
      library().init(context_, library().aes_256_gcm(), nullptr, as_bytes(key_), last.bytes, 1) == 1 &&
      library().update(context_, as_bytes(key), &written, as_bytes(zeros), key_bytes) == 1 && set_key(key);
  library().cleanse(key, sizeof key);
  return is_made;
}

// The nonce of the next record.
bool RecordCipher::begin() {
  if (number_ > 0 && number_ % rekey_every_ == 0 && !rekey()) return false;
  const Nonce nonce(number_++);
  return library().init(context_, nullptr, nullptr, nullptr, nonce.bytes, -1) == 1;
}

bool RecordCipher::seal(const iovec* pieces, int count, char* to) {
  if (!begin()) return false;
  int written = 0;
  for (int i = 0; i < count; i++) {
    const auto bytes = static_cast<int>(pieces[i].iov_len);
    if (bytes > 0 && library().update(context_, as_bytes(to), &written, as_bytes(pieces[i].iov_base), bytes) != 1)
      return false;
    to += bytes;
  }
  return library().final(context_, as_bytes(to), &written) == 1 &&
         library().control(context_, get_tag, tag_bytes, to) == 1;
}

bool RecordCipher::open(char* text, size_t bytes) {
  int written = 0;
  return begin() && library().control(context_, set_tag, tag_bytes, text + bytes) == 1 &&
         library().update(context_, as_bytes(text), &written, as_bytes(text), static_cast<int>(bytes)) == 1 &&
         library().final(context_, as_bytes(text + bytes), &written) == 1;
}

}  // namespace hvd
