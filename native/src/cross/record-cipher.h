// AES-256-GCM for one direction of one connection. OpenSSL's libcrypto does the work, which Node carries: its functions are
// looked up in the running process, so that nothing has to be installed or linked, and they use the CPU's AES instructions.
//
// NOTE [Nonces]. Records are numbered from 0, on both sides alike, and the number is the nonce: 4 zero bytes, then 8 bytes,
// big-endian. No number comes twice, so a record that is repeated, left out or moved does not open. After `rekey_every`
// records both sides replace the key by what it makes of 32 zero bytes under the nonce 2^64-1 (as the Noise protocol does),
// which keeps the number of blocks under one key small; the numbers go on.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

struct evp_cipher_ctx_st;

namespace hvd {

// Why this process cannot encrypt, or nullptr. Any thread.
const char* encryption_lack();

class RecordCipher {
 public:
  static constexpr size_t key_bytes = 32, tag_bytes = 16;
  enum class Use { seal, open };

  // Throws std::system_error (ENOSYS) if there is an encryption_lack().
  RecordCipher(Use use, const char* key, uint64_t rekey_every = default_rekey_every);
  ~RecordCipher();
  RecordCipher(const RecordCipher&) = delete;
  RecordCipher& operator=(const RecordCipher&) = delete;

  // The pieces, encrypted, and the tag behind them. False: libcrypto has failed.
  bool seal(const iovec* pieces, int count, char* to);
  // Decrypts in place; the tag lies behind `bytes`. False: it is not the next record of the other side. The text is valid only
  // if true.
  bool open(char* text, size_t bytes);

 private:
  static constexpr uint64_t default_rekey_every = uint64_t{1} << 20;
  bool begin();
  bool set_key(const char* key);
  bool rekey();

  const Use use_;
  const uint64_t rekey_every_;
  uint64_t number_ = 0;
  char key_[key_bytes];
  evp_cipher_ctx_st* context_;
};

}  // namespace hvd
