#include "sealed-stream.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace hvd {

// Seals what follows the first `skipped` bytes, as far as it fits into a record; returns how much that is.
size_t SealedStream::seal_next(const iovec* pieces, int count, size_t skipped) {
  constexpr int max_pieces = 8;
  iovec parts[max_pieces];
  int used = 0;
  size_t text = 0;
  for (int i = 0; i < count && used < max_pieces && text < max_text; i++) {
    const size_t from = std::min(skipped, pieces[i].iov_len);
    const size_t bytes = std::min(pieces[i].iov_len - from, max_text - text);
    skipped -= from;
    if (bytes == 0) continue;
    parts[used++] = {static_cast<char*>(pieces[i].iov_base) + from, bytes};
    text += bytes;
  }
  if (text == 0) return 0;
  const auto length = static_cast<uint32_t>(text);
  std::memcpy(out_.get(), &length, length_bytes);
  if (!sealer_.seal(parts, used, out_.get() + length_bytes)) return 0;
  out_begin_ = 0;
  out_end_ = length_bytes + text + RecordCipher::tag_bytes;
  out_text_ = text;
  return text;
}

ssize_t SealedStream::send(int fd, const iovec* pieces, int count) {
  size_t total = 0, gone = 0;
  for (int i = 0; i < count; i++) total += pieces[i].iov_len;
  while (gone < total) {
    if (out_begin_ == out_end_ && seal_next(pieces, count, gone) == 0) {
      errno = EIO;
      return -1;
    }
    const ssize_t sent = ::send(fd, out_.get() + out_begin_, out_end_ - out_begin_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) out_begin_ += static_cast<size_t>(sent);
    if (out_begin_ < out_end_) {
      if (gone > 0) return static_cast<ssize_t>(gone);
      if (sent >= 0) errno = EAGAIN;
      return -1;
    }
    gone += out_text_;
  }
  return static_cast<ssize_t>(gone);
}

SealedStream::Next SealedStream::open_next() {
  if (is_forged_) return Next::forged;
  const size_t here = in_end_ - in_begin_;
  if (here < length_bytes) return Next::incomplete;
  char* const record = in_.get() + in_begin_;
  uint32_t length;
  std::memcpy(&length, record, length_bytes);
  if (length > 0 && length <= max_text) {
    if (here < length_bytes + length + RecordCipher::tag_bytes) return Next::incomplete;
    if (opener_.open(record + length_bytes, length)) {
      text_begin_ = in_begin_ + length_bytes;
      text_end_ = text_begin_ + length;
      in_begin_ = text_end_ + RecordCipher::tag_bytes;
      return Next::opened;
    }
  }
  is_forged_ = true;
  return Next::forged;
}

ssize_t SealedStream::receive(int fd, void* to, size_t bytes) {
  char* const place = static_cast<char*>(to);
  size_t copied = 0;
  for (;;) {
    const size_t piece = std::min(bytes - copied, text_end_ - text_begin_);
    std::memcpy(place + copied, in_.get() + text_begin_, piece);
    copied += piece;
    text_begin_ += piece;
    if (copied == bytes) return static_cast<ssize_t>(copied);
    const Next next = open_next();
    if (next == Next::opened) continue;
    if (copied > 0) return static_cast<ssize_t>(copied);
    if (next == Next::forged) {
      errno = EBADMSG;
      return -1;
    }
    if (in_begin_ > 0 && (in_begin_ == in_end_ || in_bytes - in_begin_ < max_record)) {
      std::memmove(in_.get(), in_.get() + in_begin_, in_end_ - in_begin_);
      in_end_ -= in_begin_;
      in_begin_ = 0;
    }
    const ssize_t got = recv(fd, in_.get() + in_end_, in_bytes - in_end_, MSG_DONTWAIT);
    if (got <= 0) return got;
    in_end_ += static_cast<size_t>(got);
  }
}

}  // namespace hvd
