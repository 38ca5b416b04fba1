// A socket whose bytes are encrypted and authenticated, used as if they were not: send() and receive() of a non-blocking socket.
//
// NOTE [Records]. The stream is a sequence of records: the number of bytes (4, little-endian; 1 … max_text), as many encrypted
// bytes, and a tag of 16 bytes (see record-cipher.h). A record is decrypted in a buffer and handed out only when its tag has been
// checked. src/transport/portable/sealed-wire.ts has the same format.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <memory>

#include "record-cipher.h"

namespace hvd {

class SealedStream {
 public:
  struct Keys {
    std::array<char, RecordCipher::key_bytes> send, receive;
  };
  // A post with all it may carry (32 KiB) fits into one record. Smaller ones cost more processor time, larger ones none less, and
  // a record can be used only when all of it has arrived: see docs/decisions/0021.
  static constexpr size_t max_text = 32 * 1024 + 64;

  explicit SealedStream(const Keys& keys)
      : sealer_(RecordCipher::Use::seal, keys.send.data()), opener_(RecordCipher::Use::open, keys.receive.data()) {}

  // As sendmsg(), with -1 and errno. Bytes count as sent when all of their record has gone: after EAGAIN the next call has to
  // offer the same bytes, or the same and more.
  ssize_t send(int fd, const iovec* pieces, int count);
  // As recv(). EBADMSG, from then on: what has arrived is not what the other side has sent.
  // Less than `bytes`: no whole record is left in the buffer, so that polling the socket tells when to call again.
  ssize_t receive(int fd, void* to, size_t bytes);

 private:
  static constexpr size_t length_bytes = 4;
  static constexpr size_t max_record = length_bytes + max_text + RecordCipher::tag_bytes;
  // Several records: the larger it is, the less often part of a record has to be moved to its beginning.
  static constexpr size_t in_bytes = 4 * max_record;
  enum class Next { opened, incomplete, forged };

  size_t seal_next(const iovec* pieces, int count, size_t skipped);
  Next open_next();

  RecordCipher sealer_, opener_;
  std::unique_ptr<char[]> out_ = std::make_unique_for_overwrite<char[]>(max_record);
  size_t out_begin_ = 0, out_end_ = 0;  // what is left to send of a record
  size_t out_text_ = 0;                 // how many of the caller's bytes are in it
  std::unique_ptr<char[]> in_ = std::make_unique_for_overwrite<char[]>(in_bytes);
  size_t in_begin_ = 0, in_end_ = 0;      // records that have not been opened
  size_t text_begin_ = 0, text_end_ = 0;  // what is left of one that has, in in_ as well
  bool is_forged_ = false;
};

}  // namespace hvd
